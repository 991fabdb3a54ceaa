"""The ids of the rules. `tf_lso/rules.md` has what each is about, with an example."""

GONE, CHANGED, SAME = "LSO101", "LSO102", "LSO103"
ARGUMENTS, METHOD, SILENT = "LSO104", "LSO105", "LSO106"
NO_STAND_IN, UNSEEN = "LSO107", "LSO108"
OPTIMIZER, PROTOCOL, FILES, STATE = "LSO109", "LSO110", "LSO111", "LSO112"
RULES = tuple(f"LSO{number}" for number in range(101, 113))
