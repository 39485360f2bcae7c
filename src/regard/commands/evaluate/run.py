"""The verb `evaluate`: measure models on test pairs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from regard import _check
from regard.commands.evaluate import links
from regard.commands.evaluate.arguments import add_arguments, check_options, model_names
from regard.commands.evaluate.data import chosen_task, gold_file, read_gold, read_hypotheses, read_test
from regard.commands.evaluate.measures import compare_by_bootstrap, measure, measure_copying, named_measure
from regard.commands.evaluate.outputs import Output, model_outputs, read_for_models
from regard.commands.evaluate.report import describe, draw, json_content, write_json
from regard.commands.loading import linked_unit, load_all
from regard.commands.read_lines import Failures
from regard.seq2seq.sources.text.normalization import Normalization

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Translate, measure and print."""
    if args.links:
        return links.run(args)
    check_options(args)
    together = (
        [] if args.hypotheses else [(args.model, args.ensemble), *((path, []) for path in args.compare)]
    )
    models = [
        load_all(path, others, arrays=None) for path, others in together
    ]  # all, before the first translates
    task, test = chosen_task(args, models), read_test(args, models)
    gold = None if args.gold is None else read_gold(gold_file(args))
    if gold is not None and len(gold) != (count := len(test.references)):
        _check.fail(f"{args.gold} must have a line for each of the {count} pairs. It has {len(gold)}.")
    names, failures = model_names(args), Failures("evaluate", "items", test.name)
    failures.total = len(test.references)
    form: Normalization = "none"
    outputs: Iterable[Output]
    if args.hypotheses:
        outputs = map(Output, read_hypotheses(args, test))
    else:
        test, examples = read_for_models(args, test, models)
        args.by = linked_unit(args.by, models[0])
        outputs = model_outputs(args, models, test, examples, gold, names, failures)
        form = models[0].model.target.normalization
    columns = task.columns(test, args.tokenize)
    key = named_measure(args.measure, columns, task.headline(test))
    results = [measure(name, output, columns, test) for name, output in zip(names, outputs, strict=True)]
    copied = measure_copying(test, form, columns) if task.copies else None
    paired = compare_by_bootstrap(results, columns, test) if args.paired_bs else {}
    print(describe(args, task, test, columns, key, results, copied, paired), flush=True)
    if args.json:
        write_json(args.json, json_content(args, test, results, copied, paired))
    if args.png:
        draw(args.png, columns[key], key, test, results)
    return failures.status()
