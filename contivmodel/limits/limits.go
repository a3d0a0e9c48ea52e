// Package limits says how much may be in the fields that clients fill in: what
// they tell of endpoints, and what the model's objects have no rule of their own
// for. Every text is UTF-8 without control characters; lengths are in bytes. The
// lengths are chosen so that what is stored and sent to every agent stays small,
// and that the id of an endpoint fits where an agent writes it (the alias of a
// link has 255 bytes).
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
	Container   = 255 // the id a runtime gives a container
	CommonName  = 512 // the name a runtime gives it
	Address     = 64  // an address, with what follows it
	LabelCount  = 128 // labels of a container
	LabelKey    = 317 // as in Kubernetes: prefix, slash and name
	LabelValue  = 4096
	LabelsTotal = 16 << 10 // keys and values together

	// ListItem is an item of an object's list, of which a selector is the longest.
	ListItem = LabelKey + 1 + LabelValue
	// ListItems are those of one list, and ListTotal is the length of all of them.
	ListItems = 1000
	ListTotal = 128 << 10
)

// Operations is how many changes an apply may have: those of a large cluster that
// moves as a whole fit.
const Operations = 200000

// quotedBytes is how much of a text that is refused is repeated.
const quotedBytes = 64

// Text refuses a text that is longer than a number of bytes, or not plain.
func Text(field, text string, most int) error {
	if len(text) > most {
		return refuse(field, "%s %q... has %d bytes, want at most %d", field, head(text), len(text), most)
	}
	return Plain(field, text)
}

// List refuses a list that has too many items, one that Text refuses, or too much in all.
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

// Plain refuses a text that is not UTF-8 or has control characters. U+FFFD is
// what JSON decoders make of that which is not UTF-8.
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

// head is the beginning of a text, for a message.
func head(text string) string { return text[:min(len(text), quotedBytes)] }
