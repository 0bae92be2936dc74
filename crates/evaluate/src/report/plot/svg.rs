//! Writing SVG.

use std::fmt::Write as _;

/// A drawing under way, in its own units.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text's position lies in it.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Svg {
        Svg {
            width,
            height,
            body: String::new(),
        }
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        );
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            self.body,
            r#"<polyline points="{}" class="{class}"/>"#,
            points.join(" ")
        );
    }

    pub(super) fn area(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(self.body, r#"<polygon points="{}" class="{class}"/>"#, points.join(" "));
    }

    /// With a text that shows where the pointer rests.
    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str, tip: &str) {
        let tip = if tip.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escaped(tip))
        };
        let _ = write!(
            self.body,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" class="{class}">{tip}</circle>"#
        );
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="{class}"/>"#
        );
    }

    /// An unseen rectangle whose text shows where the pointer rests.
    pub(super) fn hover(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), tip: &str) {
        let place = format!(r#"x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}""#);
        let _ = write!(
            self.body,
            r#"<rect {place} class="hover"><title>{}</title></rect>"#,
            escaped(tip)
        );
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        let _ = write!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#
        );
    }

    /// A text turned to read upwards.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = escaped(text);
        let turned = format!(r#"transform="rotate(-90 {x:.1} {y:.1})""#);
        let _ = write!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" class="{class}" {turned}>{text}</text>"#
        );
    }

    /// The whole drawing; `label` says what it shows to those who cannot see it.
    pub(super) fn finish(self, label: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>"#,
            self.width,
            self.height,
            escaped(label),
            self.body
        )
    }
}

/// `text` where markup is read.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
