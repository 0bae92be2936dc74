//! Pieces that all sections are made of.

use super::super::plot::escaped;
use super::super::{ArmFacts, Summary};

/// Sections, in their order.
pub(super) const CONTENTS: [(&str, &str); 10] = [
    ("short", "In short"),
    ("results", "Results"),
    ("ratios", "Ratios"),
    ("boxes", "Box plots"),
    ("spectra", "Percentiles"),
    ("index", "Over the message index"),
    ("load", "Load"),
    ("verdicts", "Verdicts"),
    ("paper", "The paper beside ours"),
    ("record", "Record and replay"),
];

/// The page under way.
pub(super) struct Page {
    body: String,
    /// Behind every id, so that those of several parts differ; empty in the first and only one.
    suffix: String,
}

impl Page {
    pub(super) fn new() -> Page {
        Page {
            body: String::new(),
            suffix: String::new(),
        }
    }

    /// Begins one of several parts.
    pub(super) fn part(&mut self, number: usize, title: &str) {
        self.number_ids(number);
        self.raw(&format!(
            "<h1 class=\"part\" id=\"part-{number}\">{}</h1>",
            escaped(title)
        ));
    }

    /// Sets ids of the `number`th apart from those of the first, 0.
    pub(super) fn number_ids(&mut self, number: usize) {
        self.suffix = if number == 0 {
            String::new()
        } else {
            format!("-{number}")
        };
    }

    /// Markup as it is.
    pub(super) fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    pub(super) fn heading(&mut self, id: &str, text: &str) {
        self.raw(&format!("<h2 id=\"{id}{}\">{}</h2>", self.suffix, escaped(text)));
    }

    pub(super) fn subheading(&mut self, text: &str) {
        self.raw(&format!("<h3>{}</h3>", escaped(text)));
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.raw(&format!("<p>{}</p>", escaped(text)));
    }

    /// A plot with the colours of its arms and what it says in plain words.
    pub(super) fn figure(&mut self, svg: &str, legend: &str, words: &str) {
        self.raw(&format!(
            "<figure>{legend}{svg}<figcaption>{}</figcaption></figure>",
            escaped(words)
        ));
    }

    /// A table of cells that are markup already.
    pub(super) fn table(&mut self, caption: &str, columns: &[&str], rows: &[Vec<Cell>]) {
        // The first row that is no heading of a group tells how each column is aligned.
        let usual = rows.iter().find(|row| row.len() == columns.len());
        let aligned = |place: usize| usual.and_then(|row| row.get(place)).map_or("", |cell| cell.class);
        let column = |(place, name): (usize, &&str)| heading(name, aligned(place));
        let columns: String = columns.iter().enumerate().map(column).collect();
        let row = |row: &Vec<Cell>| format!("<tr>{}</tr>", row.iter().map(Cell::markup).collect::<String>());
        let rows: String = rows.iter().map(row).collect();
        let caption = if caption.is_empty() {
            String::new()
        } else {
            format!("<caption>{}</caption>", escaped(caption))
        };
        self.raw(&format!(
            "<div class=\"scroll\"><table>{caption}<thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div>"
        ));
    }

    /// What `fill` writes, folded away unless `open`.
    pub(super) fn folded(&mut self, title: &str, open: bool, fill: impl FnOnce(&mut Page)) {
        let open = if open { " open" } else { "" };
        self.raw(&format!("<details{open}><summary>{}</summary>", escaped(title)));
        fill(self);
        self.raw("</details>");
    }

    pub(super) fn finish(self, title: &str) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{}</title><style>\n{}</style></head>\n<body>\n{}</body></html>\n",
            escaped(title),
            include_str!("page.css"),
            self.body
        )
    }
}

/// A column's heading, aligned as its cells.
fn heading(name: &str, class: &str) -> String {
    format!("<th{}>{}</th>", attribute(class), escaped(name))
}

fn attribute(class: &str) -> String {
    if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    }
}

/// A cell of a table.
pub(super) struct Cell {
    class: &'static str,
    markup: String,
    /// Columns that it takes.
    columns: usize,
}

impl Cell {
    pub(super) fn text(text: impl AsRef<str>) -> Cell {
        Cell {
            class: "",
            markup: escaped(text.as_ref()),
            columns: 1,
        }
    }

    /// Aligned to the right.
    pub(super) fn number(text: impl AsRef<str>) -> Cell {
        Cell {
            class: "n",
            markup: escaped(text.as_ref()),
            columns: 1,
        }
    }

    /// A figure and, smaller, its interval.
    pub(super) fn figure(value: &str, interval: &str) -> Cell {
        let interval = if interval.is_empty() {
            String::new()
        } else {
            format!("<br><span class=\"interval\">{}</span>", escaped(interval))
        };
        Cell {
            class: "n",
            markup: format!("{}{interval}", escaped(value)),
            columns: 1,
        }
    }

    /// A word in the colour of what it means.
    pub(super) fn judged(class: &str, word: &str, rest: &str) -> Cell {
        let rest = if rest.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"interval\">{}</span>", escaped(rest))
        };
        Cell {
            class: "",
            markup: format!("<span class=\"{class}\">{}</span>{rest}", escaped(word)),
            columns: 1,
        }
    }

    /// The same with the rest on a line of its own.
    pub(super) fn judged_below(class: &str, word: &str, rest: &str) -> Cell {
        let (word, rest) = (escaped(word), escaped(rest));
        let markup = format!("<span class=\"{class}\">{word}</span><br><span class=\"interval\">{rest}</span>");
        Cell {
            class: "",
            markup,
            columns: 1,
        }
    }

    /// Words on lines of their own, each in the colour of what it means.
    pub(super) fn judged_lines(lines: &[(&str, String)]) -> Cell {
        let line = |(class, words): &(&str, String)| format!("<span class=\"{class}\">{}</span>", escaped(words));
        Cell {
            class: "lines",
            markup: lines.iter().map(line).collect::<Vec<_>>().join("<br>"),
            columns: 1,
        }
    }

    /// A word in the place of a figure.
    pub(super) fn no_figure(word: &str) -> Cell {
        Cell {
            class: "n",
            ..Cell::judged("undecided", word, "")
        }
    }

    /// A word in the colour of what it means, and below it why.
    pub(super) fn judged_with_reason(class: &str, word: &str, why: Option<&str>) -> Cell {
        let why = why.map_or(String::new(), |why| {
            format!("<span class=\"why\">{}</span>", escaped(why))
        });
        Cell {
            class: "",
            markup: format!("<span class=\"{class}\">{}</span>{why}", escaped(word)),
            columns: 1,
        }
    }

    /// The colour and the words of an arm.
    pub(super) fn arm(number: usize, words: &str) -> Cell {
        Cell {
            class: "arm",
            markup: format!("<span class=\"key {}\"></span>{}", class(number), escaped(words)),
            columns: 1,
        }
    }

    /// Arms on lines of their own.
    pub(super) fn arms(arms: impl Iterator<Item = (usize, String)>) -> Cell {
        let line = |(number, words): (usize, String)| Cell::arm(number, &words).markup;
        Cell {
            class: "unbroken",
            markup: arms.map(line).collect::<Vec<_>>().join("<br>"),
            columns: 1,
        }
    }

    /// On one line.
    pub(super) fn unbroken(text: &str) -> Cell {
        Cell {
            class: "unbroken",
            ..Cell::text(text)
        }
    }

    /// What the rows below it have in common.
    pub(super) fn group(text: &str, columns: usize) -> Cell {
        Cell {
            class: "group",
            columns,
            ..Cell::text(text)
        }
    }

    fn markup(&self) -> String {
        let span = match self.columns {
            1 => String::new(),
            columns => format!(" colspan=\"{columns}\""),
        };
        format!("<td{}{span}>{}</td>", attribute(self.class), self.markup)
    }
}

/// Colour class of an arm: eight colours, then again.
pub(super) fn class(arm: usize) -> String {
    format!("a{}", arm % 8)
}

/// Arms that are no repetition of another, with their numbers.
pub(super) fn originals(summary: &Summary) -> impl Iterator<Item = (usize, &ArmFacts)> {
    summary
        .arms
        .iter()
        .enumerate()
        .filter(|(_, arm)| arm.again_of.is_none())
}

/// The colours of all arms.
pub(super) fn legend(summary: &Summary) -> String {
    let all: Vec<usize> = originals(summary).map(|(number, _)| number).collect();
    legend_of(summary, &all)
}

/// The colours of some arms.
pub(super) fn legend_of(summary: &Summary, arms: &[usize]) -> String {
    keyed(arms.iter().map(|arm| (*arm, summary.arms[*arm].name.clone())))
}

/// Colours, by their number, and what they stand for.
pub(super) fn keyed(keys: impl Iterator<Item = (usize, String)>) -> String {
    let key = |(number, words): (usize, String)| {
        format!(
            "<span><span class=\"key {}\"></span>{}</span>",
            class(number),
            escaped(&words)
        )
    };
    format!("<div class=\"legend\">{}</div>", keys.map(key).collect::<String>())
}
