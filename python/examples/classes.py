"""Classification: probabilities, a search over kernels, and what the inputs matter."""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split

from cagey import GPClassifier

X, y = load_iris(return_X_y=True, as_frame=True)
y = y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
train, test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

search = GridSearchCV(GPClassifier(), {"kernel": ["rbf(ard)", "linear"]}, scoring="neg_log_loss", cv=3)
model = search.fit(train, y_train).best_estimator_
loss = log_loss(y_test, model.predict_proba(test), labels=model.classes_)
print(f"{search.best_params_}, accuracy {model.score(test, y_test):.3f}, log loss {loss:.3f}")
importance = permutation_importance(model, test, y_test, n_repeats=5, random_state=0)
for name, value in zip(X.columns, importance["importances_mean"]):
    print(f"{name:20} {value:.3f}")

assert model.score(test, y_test) > 0.9 and loss < 0.3
assert np.argmax(importance["importances_mean"]) in (2, 3)
