"""Match the variables of a file with the variables of a model and an optimizer.

Variables of the model match by path or by name. Variables of the optimizer match by the name
of the slot and by the model variable. Variables without names match by order.
"""

import collections

from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.source import UNKNOWN, CheckpointError
from tf_lso.frameworks import optimizer_table as table
from tf_lso.optimizers import manifest_comparison

# --- The variables of a model.


class ConflictError(CheckpointError):
    """A file fits a model by paths and also by names, but with different results."""


def match_model(source, model, mapping=None):
    """Return {key of `source.variables`: `Target`} of the matches, or raise ConflictError."""
    mapped = _mapped(source, model, mapping or {})
    used = set(mapped.values())
    rest = {k: entry for k, entry in source.variables.items() if k not in mapped}
    at = {k: filter(None, map(model.at, e.paths)) for k, e in rest.items()}
    by_path = _unique({k: next(found, None) for k, found in at.items()}, used)
    free = [target for target in model.targets if target not in used]
    count = collections.Counter(_short(target.name) for target in free)
    named = {_short(t.name): t for t in free if count[_short(t.name)] == 1}
    by_name = _unique({k: named.get(_short(e.name)) for k, e in rest.items()}, used)
    complete = [f for f in (by_path, by_name) if _is_complete(f, rest, free)]
    if len(complete) == 2 and by_path != by_name and not mapping:
        raise ConflictError(_conflict(source, by_path, by_name))
    if complete:
        return {**mapped, **complete[0]}
    by_name = {key: target for key, target in by_name.items() if key not in by_path}
    return {**mapped, **by_path, **_unique(by_name, {*used, *by_path.values()})}


def _conflict(source, by_path, by_name):
    variables = source.variables
    key = next(k for k in variables if by_path.get(k) is not by_name.get(k))
    place, name = (f[key].name if key in f else "nothing" for f in (by_path, by_name))
    entry = variables[key]
    return (
        f"{source.path}: the key {entry.key} ({entry.name}) belongs to {place} by its "
        f"position in the model, but to {name} by its name. Pass mapping={{name in the file: "
        "name in the model}, with names of layers or variables."
    )


def _is_complete(found, entries, targets):
    """Return whether all tensors or all variables match, with the right shapes."""
    fit = all(target.shape == entries[key].shape for key, target in found.items())
    return fit and len(found) in (len(entries), len(targets))


def _unique(found, used):
    """Return the items of `found` whose variable occurs once and is not in `used`."""
    claims = collections.Counter(found.values())
    alone = {t for t, count in claims.items() if count == 1} - {None, *used}
    return {key: target for key, target in found.items() if target in alone}


def _short(name):
    """Return the last two parts of a name: the layer and the variable."""
    return tuple(layouts.plain(name).split("/")[-2:])


def _mapped(source, model, mapping):
    found = {}
    # The names by which users may call each variable of the file.
    names = {
        key: [*filter(None, (layouts.plain(e.name), *map("/".join, e.paths)))]
        for key, e in source.variables.items()
    }
    # Apply the longer names last, so that they override the shorter names.
    for name_in_file in sorted(mapping, key=len):
        parts = f"/{name_in_file}/"
        named = {k: n for k, ns in names.items() for n in ns[::-1] if parts in f"/{n}/"}
        if not named:
            raise CheckpointError(
                f"'mapping' names {name_in_file!r}, but {source.path} has only: "
                f"{', '.join(ns[0] for ns in names.values())}."
            )
        for key, name in named.items():
            below = f"/{name}/".split(parts, 1)[1]
            wanted = f"{mapping[name_in_file]}/{below}".rstrip("/")
            found[key] = model.named(wanted)
            if found[key] is None:
                raise CheckpointError(
                    f"'mapping' maps {name!r} of {source.path} to {wanted!r}, but the "
                    f"model has only: {', '.join(t.name for t in model.targets)}."
                )
    return found


# --- The variables of an optimizer.


def match_optimizer(source, optimizer, matched):
    """Return a dict {`Target`: `Entry`} of the optimizer variables that match.

    The slots of `source` must already have the names that `optimizer` uses. `matched` is the
    result of `match_model`.
    """
    state = source.optimizer
    if state.manifest is not None:
        return _by_manifest(source, optimizer, matched)
    # In `order`, None stands for a variable of the file that today's model does not have.
    order = [matched.get(key) for key in state.order]
    if not order:
        _check_trained_layers(source, optimizer)
        order = optimizer.order
    found = _by_names(state, optimizer, matched, order)
    nameless = [entry for entry in unmatched(state, found) if entry.slot is None]
    free = [target for target in optimizer.own if target not in found]
    orders = _known_orders(state, optimizer, order, len(nameless))
    if not orders and order == optimizer.order:
        # `optimizer_table` lacks this class. Assume that the file has the order of today's
        # variables, unless something in the file contradicts this.
        is_same = _are_in_same_order(source, optimizer, matched, nameless, free)
        orders = [free] if is_same else []
    return found | _by_order(source, nameless, orders)


def _check_trained_layers(source, optimizer):
    """Raise CheckpointError if the program that wrote a .keras file froze other layers.

    Without a manifest, only the config of the model says to which layers the slots belong.
    """
    in_file, here = source.trained_layers, optimizer.trained_layers
    if len(in_file) == len(here) and in_file != here:
        raise CheckpointError(
            f"{source.path}: its slots belong to different layers, because different "
            "layers of the model were frozen (`trainable=False`) when it was saved. Freeze the "
            "same layers, or restore the model alone, without optimizer=."
        )


def _by_manifest(source, optimizer, matched):
    state, saved = source.optimizer, source.optimizer.manifest
    owners = list(dict.fromkeys(t.of for t in optimizer.own if t.of is not None))
    in_file = _of_matched(source, owners, matched)
    if in_file is None:
        paths = [owner.name for owner in owners]
        own = saved._replace(family=optimizer.family, paths=paths)
        try:
            in_file = [*manifest_comparison.variables_in_order(saved, own)]
        except ValueError:
            # The program that wrote the file trained other layers. The report lists the slots
            # of layers that today's model does not train.
            in_file = manifest_comparison.indices_in_common(saved, own)
    entries = {
        (entry.slot, number): entry
        for entry, (_, number) in zip(state.made, saved.slots)
    }
    entries |= {(e.slot, None): e for e in state.made[len(saved.slots) :]}
    numbers, found = dict(zip(owners, in_file)), {}
    for target in optimizer.own:
        number = numbers.get(target.of)
        is_known = target.of is None or number is not None
        if is_known and (target.slot, number) in entries:
            found[target] = entries[target.slot, number]
    return found


def _of_matched(source, owners, matched):
    """Return for each of `owners` the index of its saved path in the manifest, or None.

    `matched` says into which owner a saved model variable is restored. Return None instead of
    the list if the file does not name each model variable as the manifest does.
    """
    names = [layouts.plain(entry.name) for entry in source.variables.values()]
    paths = source.optimizer.manifest.paths
    count = collections.Counter(names)
    if any(count[path] != 1 for path in paths):
        return None
    of_name = dict(zip(names, source.variables))
    numbers = {matched.get(of_name[path]): n for n, path in enumerate(paths)}
    return [numbers.get(owner) for owner in owners]


def unmatched(state, found):
    used = {entry.key for entry in found.values()}
    return [entry for entry in state.made if entry.key not in used]


def _by_names(state, optimizer, matched, order):
    """Match by the name of the slot and by the model variable.

    If the file does not say to which model variables the tensors of a slot belong, these
    tensors are in the order of `order`.
    """
    targets = {(target.slot, target.of): target for target in optimizer.own}
    found, count = {}, collections.Counter()
    for entry in state.made:
        number = count[entry.slot]
        count[entry.slot] += 1
        if entry.of is None:
            # The entry is not a slot but, for example, Nadam's product of momentums.
            target = targets.get((entry.slot, None))
        else:
            in_order = order[number] if number < len(order) else None
            owner = in_order if entry.of is UNKNOWN else matched.get(entry.of)
            target = owner and targets.get((entry.slot, owner))
        if target is not None:
            found[target] = entry
    scalars = [e for e in state.made if e.slot is None and not (e.name or e.shape)]
    no_slots = [t for t in optimizer.own if t.of is None and t not in found]
    if len(scalars) == len(no_slots) == 1:
        found[no_slots[0]] = scalars[0]
    return found


def _by_order(source, entries, orders):
    """Match tensors without names by the only list in `orders` that fits them."""
    fitting = [targets for targets in orders if _fit(entries, targets)]
    if len(fitting) > 1:
        raise CheckpointError(
            f"{source.path}: {entries[0].key} and the following may be slots of a legacy "
            "optimizer of Keras 2 or of a newer one, whose orders differ. Save the whole "
            "model, or a tf.train.Checkpoint, and restore that."
        )
    # If no order fits, the report shows which tensors do not fit the first order.
    targets = next(iter(fitting or orders), [])
    return {t: entry for t, entry in zip(targets, entries) if t is not None}


def _fit(entries, targets):
    """Return whether all tensors fit, one for each variable. None fits every tensor."""
    pairs = zip(entries, targets)
    fit = not any(target and target.problem(entry) for entry, target in pairs)
    return fit and len(entries) == len(targets)


def _known_orders(state, optimizer, order, count):
    """Return the orders in which a file may list `count` slots, or [] if unknown.

    In an order, None stands for a slot of a model variable that today's model does not have.
    """
    known = table.of(optimizer.class_names).slots
    targets = {(t.slot, t.of): t for t in optimizer.own if t.of is not None}
    slots = {slot for slot, _ in targets} - state.slots
    orders = []
    averages = [*table.AVERAGE] if getattr(optimizer.inner, "use_ema", False) else []
    for groups in _groups_of_slots(known, averages, state.family):
        made = [(slot, of) for group in groups for of in order for slot in group]
        listed = [targets.get(label) for label in made if label[0] in slots]
        if len(listed) == count and listed not in orders:
            orders.append(listed)
    return orders


def _groups_of_slots(known, averages, family):
    """Return the orders in which the optimizers of a family create their slots.

    Each order is a list of groups of slot names. An optimizer creates all slots of a group for
    one model variable, then for the next one. Then it creates the slots of the next group.
    `averages` are the slots that `use_ema=True` adds.
    """
    always = [slot for slot in known if slot not in table.MADE_BY]
    by_argument = [[slot] for slot in known if slot in table.MADE_BY]
    newer = [averages, always, *by_argument]
    # In an OptimizerV2 each slot is a group of its own, except that Ftrl groups its slots as
    # newer optimizers do.
    legacy = newer if "linear" in known else [[slot] for slot in known]
    return {"legacy": [legacy], None: [newer, legacy]}.get(family, [newer])


def _are_in_same_order(source, optimizer, matched, entries, targets):
    """Return whether a file may list its tensors in the order of today's variables."""
    state = source.optimizer
    if state.family not in (None, optimizer.family) or not _fit(entries, targets):
        return False
    # Different arguments, such as `centered` and `momentum`, may create the same number of
    # slots.
    if (state.slots ^ optimizer.slots) & optimizer.optional:
        return False
    # If the name of a tensor contains the name of a model variable, the optimizer variable at
    # the same position must belong to this model variable.
    owners = [matched.get(layouts.any_owner(e.name, source.variables)) for e in entries]
    return all(owner in (None, t.of) for owner, t in zip(owners, targets))


def never_made(source, optimizer, matched, found):
    """Return {`Target`: initial value} of slots that the saved optimizer had not created."""
    state, without = source.optimizer, {target.of for target in optimizer.own}
    slots = optimizer.slots
    if state.made or state.iterations is None or source.number(state.iterations):
        if state.family != "legacy":
            return {}
        # A legacy optimizer creates the slots of a variable at the first gradient of this
        # variable. So a variable that never had a gradient has no slots.
        without = set(matched.values()) - {target.of for target in found}
        slots = {target.slot for target in found}
    values = {slot: table.first_value(optimizer.inner, slot) for slot in slots}
    new = [t for t in optimizer.own if t.of in without and t not in found]
    return {t: values[t.slot] for t in new if values.get(t.slot) is not None}
