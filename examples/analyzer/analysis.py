# SPDX-License-Identifier: Apache-2.0
# What an agent would write: code for a box that has no network and no key. It finds out what tools there are, gets the data through one of them, and
# looks at it with pandas.
import io

import matplotlib.pyplot as plt
import mcptools
import pandas as pd

print(mcptools.search_tools("dataset"))

from mcptools.datasets.import_dataset import run as import_dataset  # noqa: E402
from mcptools.datasets.list_datasets import run as list_datasets  # noqa: E402

print(list_datasets().datasets)

weather = pd.read_csv(io.StringIO(import_dataset(name="weather")))
by_month = weather.groupby("month")["temperature"].mean().round(1)
print(f"{len(weather)} days; the warmest month is {by_month.idxmax()}, with {by_month.max()} degrees on average")

by_month.plot.bar(title="temperature by month")
plt.show()
