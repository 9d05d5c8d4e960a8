"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cagey import GPClassifier, GPRegressor


@parametrize_with_checks([GPRegressor(threads=1), GPClassifier(threads=1)])
@pytest.mark.filterwarnings("ignore")
def test_checks(estimator, check):
    check(estimator)
