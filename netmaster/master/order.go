package master

import (
	"encoding/json"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Places of changes in a large plan.
const (
	newDenial = iota
	goneAllowance
	changed
	other
	newAllowance
	goneDenial
	last
)

// order returns the place of a change among those of a plan that agents see in parts, and whether it must be
// seen together with the others of its place. Packets that no rule matches pass, and a rule of a higher
// priority overrules the others, so the order of additions and removals decides what passes in between. In this
// order nothing passes at any moment that is denied before the plan and after it:
//
//  1. denials are added, or replace allowances: that only denies more
//  2. allowances are removed: that admits nothing that was denied
//  3. denials become other denials, and allowances other allowances, together: then all denials of the new
//     state are there, and no other allowances
//  4. allowances are added: the denials of the new state overrule them already
//  5. denials are removed, or replaced by allowances: the new state is complete
//
// The epoch is last: in it connections are evaluated by all that the plan has changed.
//
// What is allowed before and after may be denied in between. In step 3 something may pass for a moment only if there
// are more changes than fit into one transaction: thousands of rules that one plan deletes and creates again under
// their old names.
//
// before and after are the values of the key, nil for none.
func order(key string, before, after []byte) (place int, together bool) {
	place = placeOf(key, before, after)
	return place, place == changed
}

func placeOf(key string, before, after []byte) int {
	switch {
	case key == mastercfg.K8sEpochKey:
		return last
	case !strings.HasPrefix(key, mastercfg.PolicyRulePrefix):
		return other
	}
	was, is := denies(before), denies(after)
	switch {
	case is && !was:
		return newDenial
	case was && !is:
		return goneDenial
	case after == nil:
		return goneAllowance
	case before == nil:
		return newAllowance
	}
	return changed
}

// denies reports whether a rule denies; false if it cannot be read.
func denies(value []byte) bool {
	var rule mastercfg.CfgPolicyRule
	return value != nil && json.Unmarshal(value, &rule) == nil && rule.Action == "deny"
}
