"""A new lesson with explanations, which passes all checks."""

from __future__ import annotations

import json
from typing import Any

TEMPLATE: dict[str, Any] = {
    "//": [
        "A lesson for ADED Explorer. Open it on the page with File, Open a saved race, or drop it onto the page.",
        "Check it with: python -m aded lesson check FILE. The format: docs/lessons.md.",
        "Keys // are comments and may be anywhere. A text is a string, or an object with one string per language.",
    ],
    "format": "aded-lesson",
    "version": 1,
    "name": "NAME",
    "title": {"en": "My lesson", "zh": "我的课程"},
    "about": {"en": "One sentence that says what the reader learns.", "zh": "一句话说明读者会学到什么。"},
    "minutes": 5,
    "facts": {
        "//": "Named numbers. Texts insert them as {name}; exercises and figures use the name as a value.",
        "per-step": {"value": {"record": "tokens-per-step"}, "digits": 2},
        "greedy": {
            "//": "A measured number that is not of the record names its source; the check compares both.",
            "value": 3.0147,
            "source": {
                "file": "bench/results/ablation-recorded/results.json",
                "row": {"setting": "search", "value": "greedy"},
                "field": "tokens_per_step",
            },
        },
    },
    "parts": [
        {
            "title": {"en": "What the page shows", "zh": "页面显示的内容"},
            "text": [
                {
                    "en": "A paragraph with `code`, *emphasis*, and a [glossary term](term:draft). This run wrote {per-step} "
                    "tokens per step.",
                    "zh": "一个段落，含有 `代码`、*强调*和[术语](term:draft)。这个运行每步写出 {per-step} 个词元。",
                }
            ],
            "show": {
                "//": "The title of a recorded race, or `file`: the name of a saved race that the reader opens. Steps: from 1.",
                "race": "A maths teacher",
                "method": "aded",
                "step": 4,
                "tab": "draft",
            },
            "reading": [
                {
                    "title": "Liu et al. 2024, Adaptive Draft-Verification for Efficient Large Language Model Decoding",
                    "arxiv": "2407.12021",
                    "at": {"en": "abstract", "zh": "摘要"},
                }
            ],
        },
        {
            "title": {"en": "Predict", "zh": "预测"},
            "text": [{"en": "The verification is hidden until the answer is given.", "zh": "作答之前，验证结果是隐藏的。"}],
            "show": {"//": "Race and method are those of the part before.", "step": 16},
            "exercise": {
                "//": "The answer of a path is the accepted path in the record.",
                "kind": "path",
                "question": {"en": "Which path does the target accept?", "zh": "目标模型接受哪条路径？"},
                "why": {"en": "Say here why it is right.", "zh": "在这里说明原因。"},
            },
        },
        {
            "title": {"en": "Compute", "zh": "计算"},
            "text": [{"en": "All tokens by all steps.", "zh": "全部词元数除以全部步数。"}],
            "exercise": {
                "kind": "number",
                "question": {"en": "How many tokens per step?", "zh": "每步多少个词元？"},
                "answer": "per-step",
                "tolerance": 0.01,
                "why": {"en": "It is {per-step}.", "zh": "是 {per-step}。"},
            },
        },
        {
            "title": {"en": "Choose and select", "zh": "选择"},
            "text": [
                {
                    "en": "An option may have a value; then the greatest is right. Nodes are selected by `which`: here the child "
                    "of the root with most visits.",
                    "zh": "选项可以带一个值，值最大的就是正确答案。节点由 `which` 指定：这里是根的子节点中访问次数最多的。",
                }
            ],
            "show": {"step": 4},
            "exercise": {
                "kind": "node",
                "question": {"en": "Select the most visited child of the root.", "zh": "选出根的子节点中访问次数最多的。"},
                "which": {"children_of": 0, "greatest": "visits"},
                "why": {"en": "The number in a node is its visit count.", "zh": "节点里的数字是访问次数。"},
            },
            "figure": {
                "title": {"en": "Tokens per step", "zh": "每步词元数"},
                "y": {"en": "tokens per step", "zh": "每步词元数"},
                "bars": [
                    {"label": {"en": "this run", "zh": "这个运行"}, "value": "per-step"},
                    {"label": {"en": "greedy search, 90 texts", "zh": "贪心搜索，90 篇文本"}, "value": "greedy"},
                ],
            },
        },
    ],
}


def template(name: str) -> str:
    """The text of a new lesson with this name."""
    return json.dumps({**TEMPLATE, "name": name}, ensure_ascii=False, indent=2) + "\n"
