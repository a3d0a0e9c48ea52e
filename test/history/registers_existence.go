package history

import (
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/contiv/netplugin/utils/fault"
)

// The states of an object's register.
const (
	absent = ""
	exists = "exists"
)

// createsOnce are the types whose objects cannot be posted again.
var createsOnce = map[string]bool{"tenant": true, "network": true, "rule": true, "extContractsGroup": true}

// Existence checks, for every object and endpoint, that creations, deletions, reads and refusals agree on when it
// existed.
func Existence(calls []*Call) []string {
	registers := map[string][]porcupine.Operation{}
	rulesOf := map[string][]string{} // keys of the rules that occur, by policy
	for _, c := range calls {
		key := c.storeKey()
		if key == "" || c.Type == "global" {
			continue
		}
		if s := existence(c); s != nil {
			registers[key] = append(registers[key], c.operation(s))
		}
		if c.Type == "rule" {
			policy := modelKey("policy", c.Key[:strings.LastIndex(c.Key, ":")])
			if !slices.Contains(rulesOf[policy], key) {
				rulesOf[policy] = append(rulesOf[policy], key)
			}
		}
	}
	for _, c := range calls {
		if c.Type == "policy" && c.Verb == Delete && (c.Outcome == Done || c.Outcome == Unknown) {
			for _, rule := range rulesOf[c.storeKey()] {
				registers[rule] = append(registers[rule], c.operation(becomes(absent)))
			}
		}
	}
	return linearizable(registers)
}

// existence returns the step of a call for the register of its object, nil if it has none.
func existence(c *Call) step {
	if c.Applied {
		return existenceApplied(c)
	}
	switch c.Verb {
	case Post, CreateEndpoint:
		switch {
		case c.Outcome == Done && c.Tag == noObject:
			return becomes(exists, absent)
		case c.Outcome == Done && c.Tag > 0, strings.Contains(c.Message, "has changed since revision"), strings.Contains(c.Message, "exists already"):
			return becomes(exists, exists)
		case strings.Contains(c.Message, "does not exist any more"):
			return becomes(absent, absent)
		case c.Outcome == Done && createsOnce[c.Type]:
			return becomes(exists, absent)
		case c.Outcome == Done, c.Outcome == Unknown && c.Wrong == "":
			return becomes(exists)
		case c.Kind == fault.Immutable:
			return becomes(exists, exists)
		}
	case Delete, DeleteEndpoint:
		switch {
		case c.Outcome == Unknown:
			return becomes(absent)
		case c.Outcome == Done:
			return becomes(absent, exists)
		case c.Kind == fault.NotFound:
			return becomes(absent, absent)
		case c.Kind == fault.InUse, c.Kind == fault.Conflict:
			return becomes(exists, exists)
		}
	case Get:
		switch {
		case c.Outcome == Done:
			return becomes(exists, exists)
		case c.Kind == fault.NotFound:
			return becomes(absent, absent)
		}
	}
	return nil
}

// existenceApplied is the same for a member of an apply. The intermediate states of a refused apply never existed
// for other calls.
func existenceApplied(c *Call) step {
	switch {
	case c.Outcome == Unknown && c.Wrong != "", c.Outcome == Refused, c.Outcome == Spared:
		return nil
	case c.Outcome == Unknown && c.Verb == Post:
		return becomes(exists)
	case c.Outcome == Unknown:
		return becomes(absent)
	case c.Result == "created":
		return becomes(exists, absent)
	case c.Result == "deleted":
		return becomes(absent, exists)
	case c.Verb == Post:
		return becomes(exists, exists)
	}
	return becomes(absent, absent)
}
