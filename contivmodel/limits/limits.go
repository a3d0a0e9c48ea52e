// Package limits has the maximum sizes of the fields that clients fill in: those about endpoints, and those of the
// model's objects without a rule of their own. Every text is UTF-8 without control characters; lengths are in
// bytes. The limits keep records, which are sent to every agent, small, and the id of an endpoint short enough for
// the alias of a link (255 bytes), where agents write it.
package limits

import (
	"unicode"
	"unicode/utf8"

	"github.com/contiv/netplugin/utils/fault"
)

// Lengths.
const (
	EndpointID  = 255 // network.tenant-container
	Host        = 253 // a host label, which may be a domain name
	Name        = 253 // of another object; those of the model are shorter
	Container   = 255 // the container id of a runtime
	CommonName  = 512 // the container name of a runtime
	Address     = 64  // an address, with prefix length or port
	LabelCount  = 128 // labels of a container
	LabelKey    = 317 // as in Kubernetes: prefix, slash and name
	LabelValue  = 4096
	LabelsTotal = 16 << 10 // keys and values together

	// ListItem limits an item of an object's list; a selector is the longest.
	ListItem = LabelKey + 1 + LabelValue
	// ListItems limits the number of items of one list, and ListTotal their total length.
	ListItems = 1000
	ListTotal = 128 << 10
)

// Operations limits the changes of an apply: enough to move a large cluster as a whole.
const Operations = 200000

// quotedBytes is how much of a refused text is quoted.
const quotedBytes = 64

// Text refuses a text that is longer than most bytes, or not plain.
func Text(field, text string, most int) error {
	if len(text) > most {
		return refuse(field, "%s %q... has %d bytes, want at most %d", field, head(text), len(text), most)
	}
	return Plain(field, text)
}

// List refuses a list with too many items, an item that Text refuses, or too much in total.
func List(field string, items []string) error {
	if len(items) > ListItems {
		return refuse(field, "%s: %d items, want at most %d", field, len(items), ListItems)
	}
	total := 0
	for _, item := range items {
		if err := Text(field, item, ListItem); err != nil {
			return err
		}
		total += len(item)
	}
	if total > ListTotal {
		return refuse(field, "%s: the items have %d bytes, want at most %d", field, total, ListTotal)
	}
	return nil
}

// Plain refuses a text that is not UTF-8 or has control characters. JSON decoders replace invalid UTF-8 by U+FFFD.
func Plain(field, text string) error {
	for _, r := range text {
		switch {
		case r == utf8.RuneError:
			return refuse(field, "%s %q is not UTF-8", field, head(text))
		case unicode.IsControl(r):
			return refuse(field, "%s %q has the control character %U", field, head(text), r)
		}
	}
	return nil
}

// Labels refuses labels that are too many, too long or not plain.
func Labels(field string, labels map[string]string) error {
	if len(labels) > LabelCount {
		return refuse(field, "%s: %d labels, want at most %d", field, len(labels), LabelCount)
	}
	total := 0
	for key, value := range labels {
		if err := Text(field, key, LabelKey); err != nil {
			return err
		}
		if err := Text(field, value, LabelValue); err != nil {
			return err
		}
		total += len(key) + len(value)
	}
	if total > LabelsTotal {
		return refuse(field, "%s: keys and values have %d bytes, want at most %d", field, total, LabelsTotal)
	}
	return nil
}

func refuse(field, format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...).WithField(field)
}

// head returns the beginning of a text, for a message.
func head(text string) string { return text[:min(len(text), quotedBytes)] }
