//! `anomaly predict`: a model tried without an edge.

use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::model::Model;
use crate::predictor::{Limits, Predictor};

const LIMITS: Limits = Limits {
    deadline: Duration::from_secs(10),
    memory_bytes: 512 << 20,
};
const MODEL_BYTES_MAX: u64 = 64 << 20;
const LINE_BYTES_MAX: u64 = 4 << 20;

/// A line of JSON with score and time of each window that comes, in a process of its own as when it serves.
///
/// # Errors
/// The model or a window is wrong.
pub(crate) fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let model = Arc::new(Model::of_directory(directory, MODEL_BYTES_MAX)?);
    let mut predictor = Predictor::start(Arc::clone(&model), LIMITS)?;
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        if (&mut input).take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            break;
        }
        let window = window(&line, &model).map_err(|message| format!("line {number}: {message}"))?;
        let score = predictor.score(&window)?;
        let answer = serde_json::json!({"score": score.score, "predict_us": score.predict_us});
        writeln!(output, "{answer}")?;
    }
    Ok(())
}

fn window(line: &str, model: &Model) -> Result<Vec<f32>, String> {
    let readings: Vec<Vec<f32>> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let description = &model.description;
    let (count, features) = (description.window_readings, description.features.len());
    if readings.len() != count || readings.iter().any(|reading| reading.len() != features) {
        return Err(format!(
            "a window has {count} readings of {features} numbers: {}",
            description.features.join(", ")
        ));
    }
    Ok(readings.concat())
}
