//! A graph of ONNX, checked against its description and run.

use rten::{Dimension, Model, ModelOptions, NodeId, ValueType};
use rten_onnx::onnx::ModelProto;
use rten_tensor::prelude::*;
use rten_tensor::{NdTensorView, Tensor};

const INPUT: &str = "window";
const SCORE: &str = "score";
const OUTPUTS: [&str; 2] = ["prediction", SCORE];
/// Operator sets that the engine's operators are of.
const OPSETS: std::ops::RangeInclusive<i64> = 13..=23;

/// Of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Of a device, one after the other.
    pub readings: usize,
    /// Of each.
    pub features: usize,
}

impl Shape {
    /// How many numbers it has.
    #[must_use]
    pub(crate) fn values(self) -> usize {
        self.readings * self.features
    }
}

/// A graph that can be run.
pub(crate) struct Engine {
    model: Model,
    shape: Shape,
    input: NodeId,
    score: NodeId,
}

impl Engine {
    /// Makes a graph ready.
    ///
    /// # Errors
    /// It is none, or not as its description says.
    pub(crate) fn load(bytes: Vec<u8>, shape: Shape, opset: i64) -> Result<Self, String> {
        check_opset(&bytes, opset)?;
        let model = ModelOptions::with_all_ops().prepack_weights(true).load(bytes);
        let model = model.map_err(|error| format!("the ONNX cannot be run: {error}"))?;
        let input = check_input(&model, shape)?;
        let score = check_outputs(&model)?;
        Ok(Engine {
            model,
            shape,
            input,
            score,
        })
    }

    /// Score of one window.
    ///
    /// # Errors
    /// It cannot be computed.
    pub(crate) fn score(&self, window: &[f32]) -> Result<f32, String> {
        let window = NdTensorView::from_data([1, self.shape.readings, self.shape.features], window);
        let [score] = self
            .model
            .run_n(vec![(self.input, window.into())], [self.score], None)
            .map_err(|error| format!("it cannot be computed: {error}"))?;
        let score: Tensor<f32> = score.try_into().map_err(|_| format!("{SCORE} is no float32"))?;
        match score.to_vec().as_slice() {
            [score] => Ok(*score),
            scores => Err(format!("{SCORE} of one window has {} values; it has one", scores.len())),
        }
    }
}

fn check_opset(bytes: &[u8], opset: i64) -> Result<(), String> {
    let proto = ModelProto::parse_buf(bytes).map_err(|error| format!("it is no ONNX, or not all of it: {error}"))?;
    for import in &proto.opset_import {
        let domain = import.domain.as_deref().unwrap_or_default();
        if !matches!(domain, "" | "ai.onnx") {
            return Err(format!(
                "it has operators of the domain {domain:?}; those of ONNX alone are run"
            ));
        }
        let found = import.version.unwrap_or(0);
        if found != opset || !OPSETS.contains(&found) {
            return Err(format!(
                "it is of opset {found}; the description says {opset}, and {} to {} are run",
                OPSETS.start(),
                OPSETS.end()
            ));
        }
    }
    if proto.opset_import.is_empty() || proto.graph.is_none() {
        return Err("it is no ONNX, or not all of it: it has no graph".into());
    }
    Ok(())
}

fn check_input(model: &Model, shape: Shape) -> Result<NodeId, String> {
    let expected = format!("{INPUT}, float32 [batch, {}, {}]", shape.readings, shape.features);
    let names: Vec<_> = model.input_ids().iter().map(|id| named(model, *id)).collect();
    let [input] = model.input_ids() else {
        return Err(format!(
            "its inputs are {}; it is to have one, {expected}",
            names.join(", ")
        ));
    };
    let info = model.node_info(*input);
    let dimensions = info.as_ref().and_then(rten::NodeInfo::shape).unwrap_or_default();
    let is_fixed = |dimension: &Dimension, size: usize| matches!(dimension, Dimension::Fixed(fixed) if *fixed == size);
    let is_right = info.as_ref().and_then(rten::NodeInfo::name) == Some(INPUT)
        && info.as_ref().and_then(rten::NodeInfo::dtype) == Some(ValueType::Tensor(rten::DataType::Float))
        && matches!(dimensions.as_slice(), [Dimension::Symbolic(_), readings, features]
            if is_fixed(readings, shape.readings) && is_fixed(features, shape.features));
    match is_right {
        true => Ok(*input),
        false => Err(format!("its input is {}; it is to be {expected}", names.join(", "))),
    }
}

fn check_outputs(model: &Model) -> Result<NodeId, String> {
    let names: Vec<_> = model.output_ids().iter().map(|id| name(model, *id)).collect();
    if names != OUTPUTS {
        return Err(format!(
            "its outputs are {}; they are to be {}",
            names.join(", "),
            OUTPUTS.join(", ")
        ));
    }
    Ok(model.output_ids()[1])
}

fn name(model: &Model, id: NodeId) -> String {
    let info = model.node_info(id);
    info.and_then(|info| info.name().map(str::to_owned)).unwrap_or_default()
}

fn named(model: &Model, id: NodeId) -> String {
    let dimensions = model.node_info(id).and_then(|info| info.shape()).unwrap_or_default();
    let dimensions: Vec<_> = dimensions
        .iter()
        .map(|dimension| match dimension {
            Dimension::Fixed(size) => size.to_string(),
            Dimension::Symbolic(name) => name.clone(),
        })
        .collect();
    format!("{} [{}]", name(model, id), dimensions.join(", "))
}
