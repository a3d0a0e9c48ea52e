package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// fewTasks is the number of tasks that may block other requests
// without notice; an apply of more runs concurrently with them.
const fewTasks = 20

// program is the operations of an apply, in an order that works:
//
//  1. deletions, objects before those that they refer to
//  2. the others, objects after those that they refer to
//  3. deletions that were refused in step 1 because the object was in use, and is no longer after step 2
//
// Deletions come first because created objects may need what they release (addresses, tags, names).
type program struct{ tasks []*task } // as in the request

// unchanged is the result of an operation without an effect.
const unchanged = "unchanged"

// task is one operation and its result.
type task struct {
	contivmodel.OperationResult
	intent
	number       int // in the request, from 1
	plans        objects.Type
	ignoreAbsent bool
	flaw         error // error of the operation itself: it is not executed
	err          error // why it was refused
}

// objects returns the objects that were decoded.
func (p *program) objects() (all []contivmodel.Object) {
	for _, t := range p.tasks {
		if t.object != nil {
			all = append(all, t.object)
		}
	}
	return all
}

// rank returns the place of a task's type in the order of dependencies.
func rank(t *task) int { return slices.Index(contivmodel.DependencyOrder(), t.Type) }

// commit executes the program, or with dryRun only tries it.
func (p *program) commit(ctx context.Context, a *API, dryRun bool) (rev int64, err error) {
	plan := func(tx *ledger.Tx) error {
		rev = tx.Newest()
		if err := p.judge(tx, auth.CallerFrom(ctx)); err != nil {
			return err
		}
		if err := p.run(a.change(ctx, tx)); err != nil {
			return err
		}
		return p.refusal()
	}
	if dryRun {
		err = retryAfterStored(ctx, func() error { return a.ledger.Preview(ctx, plan) })
		return rev, err
	}
	if len(p.tasks) > fewTasks {
		return a.ledger.UpdateLarge(ctx, plan)
	}
	return a.ledger.Update(ctx, plan)
}

// judge refuses the program if its caller may not execute one of its operations, before it reads any object;
// the refusal names all such operations. An operation without a known type is refused for that reason later.
func (p *program) judge(r ledger.Reader, caller *auth.Caller) error {
	var first error
	var all []string
	for _, t := range p.tasks {
		kind, known := contivmodel.KindByType(t.Type)
		if caller == nil || !known {
			continue
		}
		err := caller.Judge(r, auth.NeedOf(rights.Change, kind, t.Key))
		if err != nil && !fault.Is(err, fault.Denied) {
			return err
		}
		if err != nil {
			first = cmp.Or(first, err)
			all = append(all, t.name())
		}
	}
	if d, ok := rest.Denied(first); ok {
		return rest.Denial{Cause: fault.New(fault.Denied, "%w", first).WithDetails(all...), Status: d.Status}
	}
	return nil
}

// run executes all tasks and records their results. Deletions come first. A deletion of an object in use is
// retried at the end, unless the object is also created: it would be gone after it was reported as created. It
// fails only if the client has gone.
func (p *program) run(c *objects.Change) error {
	var deletions, others []*task
	for _, t := range p.tasks {
		switch {
		case t.flaw != nil:
			t.err = t.flaw // the others are tried all the same, to report all errors
		case t.object == nil:
			deletions = append(deletions, t)
		default:
			others = append(others, t)
		}
	}
	slices.SortStableFunc(deletions, func(a, b *task) int { return rank(b) - rank(a) })
	slices.SortStableFunc(others, func(a, b *task) int { return rank(a) - rank(b) })
	made := make(map[string]bool, len(others))
	for _, t := range others {
		made[t.name()] = true
	}
	var held []*task
	for _, t := range deletions {
		if err := t.run(c); err != nil {
			return err
		}
		if fault.Is(t.err, fault.InUse) && !made[t.name()] {
			held = append(held, t)
		}
	}
	for _, t := range append(others, held...) {
		if err := t.run(c); err != nil {
			return err
		}
	}
	return nil
}

// run executes one task; if it is refused, it has no effect.
func (t *task) run(c *objects.Change) error {
	if err := c.Context().Err(); err != nil {
		return fault.New(fault.Unavailable, "apply: given up: %w", err)
	}
	t.err = c.Try(func() (err error) {
		t.Result, err = t.carryOut(c)
		return err
	})
	return nil
}

func (t *task) carryOut(c *objects.Change) (string, error) {
	key := mastercfg.ModelKey(t.Type, t.Key)
	before, exists := c.Get(key)
	switch {
	case !exists && t.object == nil && t.ignoreAbsent:
		return unchanged, nil
	case exists && t.object != nil:
		if err := t.checkCondition(c, true); err != nil {
			return "", err
		}
		if t.isUnchanged(c, before) {
			return unchanged, nil
		}
		if t.Op == contivmodel.OpCreate {
			return "", fault.New(fault.Conflict, "exists and differs")
		}
	}
	if _, err := t.intent.apply(t.plans, c); err != nil {
		return "", err
	}
	after, still := c.Get(key)
	switch {
	case !exists:
		return "created", nil
	case !still:
		return "deleted", nil
	case bytes.Equal(before, after):
		return unchanged, nil
	}
	return "configured", nil
}

// isUnchanged reports whether the stored object equals the wanted one.
func (t *task) isUnchanged(c *objects.Change, stored []byte) bool {
	there, err := t.kind.Decode(stored) // without the links
	if err != nil {
		return false
	}
	there.SetKey(t.Key)
	there, err = contivmodel.MapSecrets(there, func(_ contivmodel.Field, text string) (string, error) {
		return c.Config.Opened(mastercfg.ModelKey(t.Type, t.Key), text)
	})
	if err != nil {
		return false
	}
	is, err := json.Marshal(there)
	if err != nil {
		return false
	}
	wanted, err := json.Marshal(contivmodel.WithSecrets(t.object, there))
	return err == nil && bytes.Equal(is, wanted)
}

// refusal returns the error of all refused tasks: that of the first one, with all of them as details.
func (p *program) refusal() error {
	var first *task
	var all []string
	for _, t := range p.tasks {
		if t.err == nil {
			continue
		}
		if first == nil {
			first = t
		}
		text, _, _ := strings.Cut(fault.Explain(t.err), "\n")
		all = append(all, t.name()+": "+text)
	}
	if first == nil {
		return nil
	}
	e := fault.New(fault.KindOf(first.err), "%s: %w", first.name(), first.err).WithDetails(all...)
	if cause := fault.As(first.err); cause != nil {
		e = e.WithField(cause.Field)
	}
	return e
}

// name returns the name of a task in refusals; a task without type or key has its number.
func (t *task) name() string {
	if t.Type == "" || strings.Trim(t.Key, ":") == "" {
		return strings.TrimSpace(fmt.Sprintf("operation %d %s", t.number, t.Type))
	}
	return t.Type + " " + t.Key
}

func (p *program) results() []contivmodel.OperationResult {
	all := make([]contivmodel.OperationResult, len(p.tasks))
	for i, t := range p.tasks {
		all[i] = t.OperationResult
	}
	return all
}

// auditNames returns the names of the operations for the audit log.
func (p *program) auditNames() []string {
	all := make([]string, len(p.tasks))
	for i, t := range p.tasks {
		all[i] = t.Op + " " + t.name()
	}
	return all
}

// auditChanges returns, for the audit log, the results of a committed program.
func (p *program) auditChanges() (all []string) {
	for _, t := range p.tasks {
		if t.Result != unchanged {
			all = append(all, t.Result+" "+t.name())
		}
	}
	return all
}

// tenant returns the tenant of all operations; empty if they are of several, or of none.
func (p *program) tenant() (of string) {
	for i, t := range p.tasks {
		kind, _ := contivmodel.KindByType(t.Type)
		tenant := auth.NeedOf(rights.Change, kind, t.Key).Tenant
		if i > 0 && tenant != of {
			return ""
		}
		of = tenant
	}
	return of
}
