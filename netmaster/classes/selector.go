package classes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Selector selects by labels: all of its requirements must be met. An empty one selects everything.
type Selector []Requirement

// Requirement is a condition on a label.
type Requirement struct {
	Key    string
	Op     Operator
	Values []string // of In and NotIn
}

// Operator is an operator of Kubernetes label selectors.
type Operator string

// Operators. NotIn is also met without the label.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// Matches reports whether the labels are selected. An unknown operator selects nothing.
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

// PodSelector selects pods: of one namespace, or of the namespaces that a selector matches.
type PodSelector struct {
	Namespace  string   // empty: those that Namespaces selects
	Namespaces Selector // by the labels of namespaces
	Pods       Selector
}

// isAnyPod reports whether it selects every pod of the cluster.
func (s PodSelector) isAnyPod() bool { return s.Namespace == "" && len(s.Namespaces)+len(s.Pods) == 0 }

// text returns the same text for selectors that differ only in order.
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
