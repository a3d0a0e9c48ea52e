package master

import (
	"encoding/json"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Places of changes in a large plan.
const (
	newDenial = iota
	changedDenial
	goneAllowance
	other
	madeAllowance
	goneDenial
)

// order is the place of a change among those of a plan that agents see one
// part after the other. What no rule matches passes, and a rule of a higher
// priority overrules the others, so the order in which rules come and go
// decides what passes in between. In this one nothing passes at any moment that
// is denied before the plan and after it:
//
//  1. denials are added, and take the place of allowances: that only denies more
//  2. allowances go: what they let through past a denial is denied from now on
//  3. allowances come: every denial of afterwards is there to overrule them
//  4. denials go, whether allowances take their place or nothing: what is left
//     is what is to be
//
// What is allowed before and after may be denied in between. One denial that
// becomes another under the same key stops the first from being there before
// all of the others are; those stand together, to be in one transaction.
//
// before and after are the values of the key, nil for none.
func order(key string, before, after []byte) int {
	if !strings.HasPrefix(key, mastercfg.PolicyRulePrefix) {
		return other
	}
	was, is := denies(before), denies(after)
	switch {
	case is && before == nil:
		return newDenial
	case is:
		return changedDenial
	case was:
		return goneDenial
	case after == nil:
		return goneAllowance
	}
	return madeAllowance
}

// denies tells whether a rule denies. One that cannot be read is none.
func denies(value []byte) bool {
	var rule mastercfg.CfgPolicyRule
	return value != nil && json.Unmarshal(value, &rule) == nil && rule.Action == "deny"
}
