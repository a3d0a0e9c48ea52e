package classes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Selector selects by labels: all of its requirements must hold. An empty one selects
// everything.
type Selector []Requirement

// Requirement is what a label must be.
type Requirement struct {
	Key    string
	Op     Operator
	Values []string // of In and NotIn
}

// Operator is one of Kubernetes' selectors of labels.
type Operator string

// Operators. NotIn holds where there is no such label, too.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// Matches tells whether the labels are selected. What is unknown selects nothing.
func (s Selector) Matches(labels map[string]string) bool {
	return !slices.ContainsFunc(s, func(r Requirement) bool { return !r.holds(labels) })
}

func (r Requirement) holds(labels map[string]string) bool {
	value, has := labels[r.Key]
	switch r.Op {
	case In:
		return has && slices.Contains(r.Values, value)
	case NotIn:
		return !has || !slices.Contains(r.Values, value)
	case Exists:
		return has
	case DoesNotExist:
		return !has
	}
	return false
}

// PodSelector selects pods: of one namespace, or of those that a selector finds.
type PodSelector struct {
	Namespace  string   // the only one; empty: those that Namespaces selects
	Namespaces Selector // by the labels of namespaces
	Pods       Selector
}

// isAnyPod tells whether it selects every pod of the cluster.
func (s PodSelector) isAnyPod() bool { return s.Namespace == "" && len(s.Namespaces)+len(s.Pods) == 0 }

// text is the same for selectors that differ only in their order.
func (s PodSelector) text() string {
	return s.Namespace + "\x00" + s.Namespaces.text() + "\x00" + s.Pods.text()
}

func (s Selector) text() string {
	var parts []string
	for _, r := range s {
		values := slices.Clone(r.Values)
		slices.Sort(values)
		parts = append(parts, fmt.Sprintf("%q %s %q", r.Key, r.Op, slices.Compact(values)))
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(a, b) })
	return strings.Join(slices.Compact(parts), ",")
}
