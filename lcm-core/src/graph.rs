//! The graph of nodes at hand: order, cover, reach, no cycles.
//!
//! Holds ids only, and only the part of the store that a question needs: a million nodes would take 42-120 MB
//! and half a second to load, an open takes a millisecond. A node whose children were not put in is a leaf here:
//! a message, or a summary that the question does not look into.
//!
//! Invariant: no node reaches itself; an insert that would break this is refused and changes nothing.
//! Nothing here recurses: a chain of a million summaries must not end a thread.

use std::collections::{HashMap, HashSet};

use petgraph::Direction::Incoming;
use petgraph::algo::{has_path_connecting, toposort};
use petgraph::graphmap::DiGraphMap;

use crate::id::NodeId;

/// Why a summary cannot be put in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The summary stands, directly or not, for something that stands for it.
    #[error("summary {summary:.12} cannot stand for {child:.12}, which already stands for it")]
    Cycle {
        /// The summary that was to be put in.
        summary: NodeId,
        /// The child that reaches it.
        child: NodeId,
    },
    /// It is here with other children. An id is a hash of the children too, so one of the two is wrong.
    #[error("summary {0:.12} is already here with other children")]
    OtherChildren(NodeId),
}

/// Summaries and what they stand for. See the module.
#[derive(Clone, Debug, Default)]
pub struct ContextGraph {
    /// An edge from each summary to each of its children; edges keep the order in which they came.
    edges: DiGraphMap<NodeId, ()>,
    /// The children in order, a message that is said twice named twice: an edge cannot be there twice.
    children: HashMap<NodeId, Box<[NodeId]>>,
}

impl ContextGraph {
    /// A graph of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts in a summary with its children, in order. Again, with the same children, changes nothing.
    ///
    /// # Errors
    /// When that would make a cycle, or when it is here with other children.
    pub fn insert(&mut self, summary: NodeId, children: &[NodeId]) -> Result<(), GraphError> {
        if let Some(known) = self.children.get(&summary) {
            return if **known == *children { Ok(()) } else { Err(GraphError::OtherChildren(summary)) };
        }
        if children.contains(&summary) {
            return Err(GraphError::Cycle { summary, child: summary });
        }
        // Only what something stands for already can be reached from below. A summary nearly always comes before
        // those that stand for it, so this walk is rare.
        if self.edges.neighbors_directed(summary, Incoming).next().is_some()
            && let Some(child) = self.first_that_reaches(children, summary)
        {
            return Err(GraphError::Cycle { summary, child });
        }
        self.edges.add_node(summary);
        for child in children {
            self.edges.add_edge(summary, *child, ());
        }
        self.children.insert(summary, children.into());
        Ok(())
    }

    fn first_that_reaches(&self, from: &[NodeId], to: NodeId) -> Option<NodeId> {
        let mut seen = HashSet::new();
        for child in from {
            let mut open = vec![*child];
            while let Some(node) = open.pop() {
                if node == to {
                    return Some(*child);
                }
                if seen.insert(node) {
                    open.extend_from_slice(self.children(node));
                }
            }
        }
        None
    }

    /// What a summary stands for, in order; nothing for a leaf or a node that is not here.
    #[must_use]
    pub fn children(&self, id: NodeId) -> &[NodeId] {
        self.children.get(&id).map_or(&[], |children| children)
    }

    /// The summaries that directly stand for a node, in the order in which they came.
    pub fn parents(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.edges.neighbors_directed(id, Incoming)
    }

    /// Whether a node is here.
    #[must_use]
    pub fn contains(&self, id: NodeId) -> bool {
        self.edges.contains_node(id)
    }

    /// The leaves that a node stands for, in order, each at its first mention only: what a fold covers. A leaf
    /// covers itself; a node that is not here nothing.
    #[must_use]
    pub fn leaves_under(&self, id: NodeId) -> Vec<NodeId> {
        let mut leaves = Vec::new();
        if !self.contains(id) {
            return leaves;
        }
        let mut seen = HashSet::from([id]);
        let mut open = vec![id];
        while let Some(node) = open.pop() {
            match self.children.get(&node) {
                None => leaves.push(node),
                // What is pushed is marked when it is popped: a node further back must not take the place of an
                // earlier mention of it that lies deeper.
                Some(children) => open.extend(children.iter().rev().copied()),
            }
            while open.last().is_some_and(|next| !seen.insert(*next)) {
                open.pop();
            }
        }
        leaves
    }

    /// Whether `from` stands for `to`, directly or not. Every node that is here reaches itself.
    #[must_use]
    pub fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        self.contains(from) && self.contains(to) && has_path_connecting(&self.edges, from, to, None)
    }

    /// Whether the invariant holds: for checks of what was loaded.
    #[must_use]
    pub fn is_acyclic(&self) -> bool {
        toposort(&self.edges, None).is_ok()
    }

    /// How many nodes are here, leaves included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.edges.node_count()
    }

    /// Whether nothing is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    //! That order and repetition survive, that no cycle gets in, and that depth is no limit.
    //! Method: small graphs by hand, random ones against a plain recursive walk.

    use proptest::prelude::*;

    use super::*;

    fn id(n: u32) -> NodeId {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn ids<const N: usize>(numbers: [u32; N]) -> [NodeId; N] {
        numbers.map(id)
    }

    #[test]
    fn children_and_parents_keep_their_order() {
        let mut graph = ContextGraph::new();
        assert!(graph.is_empty());
        graph.insert(id(20), &ids([3, 1, 2, 1])).unwrap();
        graph.insert(id(10), &ids([2, 3])).unwrap();
        assert_eq!(graph.children(id(20)), ids([3, 1, 2, 1]));
        assert_eq!(graph.parents(id(2)).collect::<Vec<_>>(), ids([20, 10]));
        assert_eq!(graph.children(id(3)), []);
        assert_eq!(graph.len(), 5);
    }

    #[test]
    fn a_cover_has_each_leaf_once_where_it_is_first_said() {
        let mut graph = ContextGraph::new();
        graph.insert(id(10), &ids([5, 1, 5])).unwrap();
        graph.insert(id(11), &ids([2, 1])).unwrap();
        // 1 is a child of the root too, behind 10 which says it first.
        graph.insert(id(20), &ids([10, 1, 11, 10])).unwrap();
        assert_eq!(graph.leaves_under(id(20)), ids([5, 1, 2]));
        assert_eq!(graph.leaves_under(id(1)), ids([1]));
        assert_eq!(graph.leaves_under(id(99)), []);
    }

    #[test]
    fn a_cycle_is_refused_by_name_and_leaves_no_trace() {
        let mut graph = ContextGraph::new();
        graph.insert(id(2), &ids([1])).unwrap();
        graph.insert(id(3), &ids([2])).unwrap();
        let before = graph.len();
        let error = GraphError::Cycle { summary: id(1), child: id(3) };
        assert_eq!(graph.insert(id(1), &ids([7, 3])), Err(error));
        assert_eq!(graph.insert(id(8), &ids([8])), Err(GraphError::Cycle { summary: id(8), child: id(8) }));
        assert_eq!(graph.len(), before);
        assert!(graph.is_acyclic() && !graph.reaches(id(1), id(3)));
    }

    #[test]
    fn a_summary_is_put_in_once_and_with_the_same_children_only() {
        let mut graph = ContextGraph::new();
        graph.insert(id(2), &ids([1])).unwrap();
        assert_eq!(graph.insert(id(2), &ids([1])), Ok(()));
        assert_eq!(graph.insert(id(2), &ids([1, 1])), Err(GraphError::OtherChildren(id(2))));
    }

    #[test]
    fn a_child_may_become_a_summary_after_its_parent() {
        let mut graph = ContextGraph::new();
        graph.insert(id(3), &ids([2])).unwrap();
        graph.insert(id(2), &ids([1])).unwrap();
        assert!(graph.reaches(id(3), id(1)) && graph.reaches(id(1), id(1)));
        assert!(!graph.reaches(id(1), id(3)) && !graph.reaches(id(3), id(99)));
        assert_eq!(graph.leaves_under(id(3)), ids([1]));
    }

    /// A walk that recursed would end the thread here: a test's stack has 2 MiB.
    #[test]
    fn a_very_long_chain_is_walked_without_recursion() {
        const LENGTH: u32 = 200_000;
        let mut graph = ContextGraph::new();
        for n in 0..LENGTH {
            graph.insert(id(n + 1), &[id(n)]).unwrap();
        }
        assert_eq!(graph.leaves_under(id(LENGTH)), [id(0)]);
        assert!(graph.reaches(id(LENGTH), id(0)) && graph.is_acyclic());
        let error = GraphError::Cycle { summary: id(0), child: id(LENGTH) };
        assert_eq!(graph.insert(id(0), &[id(LENGTH)]), Err(error));
    }

    fn cover(graph: &ContextGraph, node: NodeId, out: &mut Vec<NodeId>) {
        if graph.children(node).is_empty() {
            if !out.contains(&node) {
                out.push(node);
            }
            return;
        }
        for child in graph.children(node) {
            cover(graph, *child, out);
        }
    }

    proptest! {
        #[test]
        fn random_graphs_stay_without_cycles_and_are_covered_in_order(
            inserts in prop::collection::vec((0_u32..12, prop::collection::vec(0_u32..12, 1..5)), 0..16),
        ) {
            let mut graph = ContextGraph::new();
            for (summary, children) in inserts {
                let children: Vec<NodeId> = children.into_iter().map(id).collect();
                let makes_cycle = children.iter().any(|child| *child == id(summary) || graph.reaches(*child, id(summary)));
                let is_known = !graph.children(id(summary)).is_empty();
                prop_assert_eq!(graph.insert(id(summary), &children).is_err(), makes_cycle || (is_known && graph.children(id(summary)) != children));
                prop_assert!(graph.is_acyclic());
            }
            for n in (0..12).filter(|n| graph.contains(id(*n))) {
                let mut slow = Vec::new();
                cover(&graph, id(n), &mut slow);
                prop_assert_eq!(graph.leaves_under(id(n)), slow);
            }
        }
    }
}
