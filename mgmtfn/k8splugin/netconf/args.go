package netconf

import (
	"maps"
	"slices"
	"strings"
)

// Keys of CNI_ARGS that kubelet sets.
const (
	PodNamespace     = "K8S_POD_NAMESPACE"
	PodName          = "K8S_POD_NAME"
	PodUID           = "K8S_POD_UID"
	InfraContainerID = "K8S_POD_INFRA_CONTAINER_ID"
)

// Args are the key-value pairs of CNI_ARGS.
type Args map[string]string

// ParseArgs splits "k=v;k=v". A value may contain "="; the last of two equal keys wins; a part without "=" is a key
// with an empty value. Unknown keys may be for other plugins.
func ParseArgs(text string) Args {
	args := Args{}
	for part := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); key != "" {
			args[key] = value
		}
	}
	return args
}

// Label returns the value of a label passed as an argument: its key is upper case, with "_" for every other
// character ("io.contiv.net-group" is IO_CONTIV_NET_GROUP).
func (a Args) Label(name string) string { return a[argName(name)] }

// Unknown returns a key that has the form of a label with the prefix, and is none of the labels, or "".
func (a Args) Unknown(prefix string, labels ...string) string {
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if strings.HasPrefix(argName(key), argName(prefix)) && !slices.ContainsFunc(labels, func(label string) bool { return argName(label) == key }) {
			return key
		}
	}
	return ""
}

// argName returns the CNI_ARGS key of a label.
func argName(label string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, label)
}

// Label returns the value of a label in args.cni.labels.
func (c *Conf) Label(name string) string {
	for _, l := range c.Args.CNI.Labels {
		if l.Key == name {
			return l.Value
		}
	}
	return ""
}
