"""scikit-learn's own checks of estimators: none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cagey import GPClassifier, GPRegressor


# One kernel and few steps: the checks are about the interface.
@parametrize_with_checks(
    [GPRegressor("rbf", threads=1, calibrate=False), GPClassifier("rbf", model="laplace", threads=1, options={"steps": 20})]
)
@pytest.mark.filterwarnings("ignore")
def test_checks(estimator, check):
    check(estimator)
