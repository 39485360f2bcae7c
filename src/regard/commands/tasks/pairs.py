"""Pairs of texts, and of arrays and their descriptions."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

from regard import _check
from regard.commands import argument_types, drawing
from regard.commands.columns import check_one_file
from regard.commands.examples import load_pairs
from regard.commands.link_files import LINKS_FROM, LineLinks, LinkFile, PairLinks, SkippedPairs, read_links
from regard.commands.options import check_needs
from regard.commands.summary import Measures
from regard.commands.tasks import naming_task, way
from regard.commands.tasks.base import Task
from regard.commands.tasks.data import Data, with_noun
from regard.commands.tasks.items import Column, Items
from regard.commands.train.confidence import Confidence
from regard.commands.train.notices import notices
from regard.commands.train.report import measure
from regard.seq2seq.corpus.pairs import Pair, read_pairs, read_two
from regard.seq2seq.corpus.splits import split_validation
from regard.seq2seq.corpus.tables import is_csv
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation import metrics, paired
from regard.seq2seq.evaluation.metrics import is_near
from regard.seq2seq.model import Seq2Seq
from regard.show.terminal.text import note

__all__ = ["Captions", "Pairs"]


class Pairs(Task):
    """Sentence pairs: texts in two columns, or in two files."""

    name = "pairs"
    description = "sources and targets that are text"
    verb = "translate"

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        """Add the options of guided alignment."""
        group.add_argument(
            "--links",
            type=argument_types.path,
            metavar="FILE",
            help="word alignments of the pairs, which attention learns (one line a pair, 0-0 1-2, as from regard"
            " align)",
        )
        by = "what the numbers in --links count (default words; tokens where those of a side are characters)"
        group.add_argument("--links-by", choices=("words", "tokens"), help=by)
        group.add_argument(
            LINKS_FROM,
            "--gold-from",
            type=argument_types.integer(0, 1),
            choices=(0, 1),
            help="the number of the first word in --links (default 0)",
        )

    def check(self) -> None:
        """Raise for options of links that do not go together."""
        args = self.args
        check_needs(args, (("--links-by", "--links", ""), (LINKS_FROM, "--links", "")))
        if args.links and args.skip_empty and (args.columns or is_csv(args.pairs[0])):
            _check.fail(
                "--links with --skip-empty needs pairs with TABs and no header: links are numbered by lines"
            )

    @property
    def links(self) -> LinkFile | None:
        """The file of links, if there is one."""
        args = self.args
        if not args.links:
            return None
        by = "tokens" if "characters" in (args.source, args.target) else "words"
        return LinkFile(args.links, args.links_from, args.links_by or by)

    def read(self, model: Seq2Seq) -> Data:
        """Read the pairs and their links; without validation pairs, some are held out, for the test, too."""
        args, skipped, file = self.args, SkippedPairs(), self.links
        train = self._pairs(args.pairs, "PAIRS", skipped, model)
        for line in notices(train, model, lambda: way(args.pairs[0])):
            note(line)
        lines: Sequence[LineLinks] | None = file and read_links(file, skipped.lines, len(train))
        if args.valid:
            valid = self._pairs(args.valid, "--valid", skipped, model)
        else:
            train, valid, lines = split_validation(train, lines, model.fits)
        test = self._pairs(args.test, "--test", skipped, model) if args.test else valid
        if skipped.count:
            note(f"{with_noun(skipped.count, 'pair')} left out: {skipped.first}")
        return Data(
            train,
            valid,
            test,
            PairLinks(file, lines, model.max_tokens) if file and lines is not None else None,
            own_valid=args.valid is not None,
            own_test=test != valid,
            tested=(args.test or args.valid or args.pairs)[0],
        )

    def _pairs(self, paths: Sequence[str], name: str, skipped: SkippedPairs, model: Seq2Seq) -> list[Pair]:
        """Read pairs from one file of pairs, or from a source and a target file; and the files that sources name."""
        columns, on_skipped = self.args.columns, skipped.add if self.args.skip_empty else None
        if len(paths) > 2:
            rule = f"{name}: must be one file of pairs, or a source and a target file."
            _check.fail(f"{rule} Got {len(paths)} files instead.")
        check_one_file(columns, paths, name)
        lines = array("Q")
        if len(paths) == 2:
            pairs = read_two(*paths, skipped=on_skipped, kept=lines.append)
        else:
            with naming_task(paths[0]):
                pairs = read_pairs(paths[0], skipped=on_skipped, kept=lines.append, columns=columns)
        return load_pairs(pairs, model, paths[0], lines)

    def measures(self, model: Seq2Seq, data: Data) -> Measures:
        """Return what is measured after each epoch, by the training pairs."""
        sources, targets = ([str(pair[side]) for pair in data.train] for side in (0, 1))
        return Measures.of(model.target, sources, targets)

    def measure(
        self, models: Sequence[Seq2Seq], test: Sequence[Pair], data: Data, confidences: Sequence[Confidence]
    ) -> list[dict[str, Any]]:
        """Print the measures of each model, and of the copied sources if those are nearly as good."""
        sources, measured = [source for source, _ in test], []
        chosen = self.measures(models[0], data)
        any_target = ", any target of a source right" * (len({*test}) > len({*sources}))
        for model in models:
            measures = measure(chosen, model, test, [t.text for t in model.translate(sources)])
            measured.append(measures)
            how = "with" if model.attention else "without"
            signature = f" ({measures.signature})" if measures.signature else any_target
            print(f"{measures} {how} attention, on {_describe_test(data, test)}, beam {BEAM}{signature}")
        if self.copies:
            copied = measure(chosen, models[0], test, list(map(str, sources)))
            if any(is_near(copied._asdict(), measures._asdict()) for measures in measured):
                print(f"{copied} by copying the source")
        return [{} for _ in models]

    @classmethod
    def columns(cls, test: Items, tokenize: str) -> dict[str, Column]:
        """Return BLEU and chrF, if sacrebleu is installed, exact matches and errors."""
        _, cut = test.error_unit
        columns: dict[str, Column] = {}
        if find_spec("sacrebleu") is None:
            note(drawing.missing_extras("sacrebleu"))
        else:
            columns["bleu"] = Column(
                "BLEU",
                1,
                lambda h, r: metrics.bleu(h, r, tokenize=tokenize),
                lambda each, r: paired.of_sacrebleu(each, r, "bleu", tokenize=tokenize),
            )
            columns["chrf"] = Column(
                "chrF", 1, metrics.chrf, lambda each, r: paired.of_sacrebleu(each, r, "chrf")
            )
        columns["exact"] = Column.rate("exact %", metrics.exact_lines)
        columns["errors"] = Column.rate("errors %", partial(metrics.error_lines, cut=cut))
        return columns

    @classmethod
    def headline(cls, test: Items) -> str:
        """Return BLEU, or the errors of words and short lines."""
        return metrics.headline(test.measured_side[1], test.targets)

    @classmethod
    def definitions(cls, test: Items) -> list[str]:
        """Return what errors and exact lines are."""
        unit, _ = test.error_unit
        tokens = "characters" if unit == "characters" else "tokens between blanks"
        return [f"errors: edits for 100 {tokens} of the references; exact: lines without an error"]


class Captions(Pairs):
    """Names of files of images or vectors, and their descriptions."""

    name = "captions"
    description = "files of images or vectors, and texts about them"
    verb = ""
    copies: ClassVar[bool] = False


def _describe_test(data: Data, test: Sequence[Pair]) -> str:
    """Describe the test pairs: whether the model was trained on them or chosen by them."""
    count = len(test)
    if data.too_few and not data.own_test:
        pairs = "the training pair itself" if count == 1 else f"the {count} training pairs themselves"
        return f"{pairs}: there are too few to hold any out"
    learned = data.learned(test)
    pairs = with_noun(count, "held-out pair")
    if learned:
        pairs = f"{with_noun(count, 'pair')}, {learned} of them learned from"
    return pairs if data.own_test else f"{pairs}, which also selected the epoch"
