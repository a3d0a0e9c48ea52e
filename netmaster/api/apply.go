package api

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/limits"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/utils/fault"
)

// operation is one change of an apply, as sent.
type operation struct {
	Op             string          `json:"op"`
	Type           string          `json:"type"`
	Key            string          `json:"key"`
	Object         json.RawMessage `json:"object"`
	IfRevision     int64           `json:"ifRevision"`
	IgnoreNotFound bool            `json:"ignoreNotFound"`
}

// applyAll carries out a list of operations or, with dryRun, reports what it would do.
func (a *API) applyAll(r *http.Request) (rest.Reply, error) {
	dryRun, err := rest.Flag(r, "dryRun")
	if err != nil {
		return rest.Reply{}, err
	}
	release, err := a.entrance.Take(r.Context(), ratelimit.Apply)
	if err != nil {
		return rest.Reply{}, err
	}
	defer release()
	var request struct {
		Operations []operation `json:"operations"`
	}
	if err := rest.ReadInto(r, &request); err != nil {
		return rest.Reply{}, err
	}
	if n := len(request.Operations); n > limits.Operations {
		return rest.Reply{}, fault.New(fault.TooLarge, "apply has %d operations: the limit is %d", n, limits.Operations).WithField("operations")
	}
	p := a.decodeProgram(request.Operations)
	caller := auth.CallerFrom(r.Context())
	if caller != nil {
		caller.SetTenant(p.tenant())
		caller.Names(p.auditNames())
	}
	if dryRun {
		caller.SetSubject("dry run")
	}
	exposed := a.exposed(r, p.objects()...)
	rev, err := p.commit(r.Context(), a, dryRun)
	if err != nil {
		return rest.Reply{}, err
	}
	if caller != nil {
		caller.Names(p.auditChanges())
	}
	return rest.Reply{Body: contivmodel.Applied{DryRun: dryRun, Revision: rev, Results: p.results()}, Revision: rev, Warning: a.warnings(r.Context(), exposed, p.objects()...)}, nil
}

// decodeProgram decodes the operations and makes the checks that need one operation only.
func (a *API) decodeProgram(operations []operation) *program {
	p := &program{}
	seen := map[string]bool{}
	for i, o := range operations {
		t := &task{number: i + 1, OperationResult: contivmodel.OperationResult{Op: o.Op, Type: o.Type, Key: o.Key}, ignoreAbsent: o.IgnoreNotFound}
		p.tasks = append(p.tasks, t)
		if t.flaw = t.decode(a, o); t.flaw != nil {
			continue
		}
		identity := t.Type + " " + t.Key + map[bool]string{true: " deleted"}[t.object == nil]
		if seen[identity] {
			t.flaw = fault.New(fault.Invalid, "given twice").WithField("operations")
		}
		seen[identity] = true
	}
	return p
}

// decode sets the intent of an operation.
func (t *task) decode(a *API, o operation) error {
	kind, known := contivmodel.KindByType(o.Type)
	if !known {
		return fault.New(fault.Invalid, "there is no type %q", o.Type).WithField("type")
	}
	t.plans, known = a.types[o.Type]
	if !known {
		return fault.New(fault.Unsupported, "Invalid object type").WithField("type")
	}
	t.intent = intent{kind: kind, key: o.Key, only: rest.IfRevision(o.IfRevision)}
	switch o.Op {
	case contivmodel.OpDelete:
		if o.Key == "" {
			return fault.New(fault.Invalid, "Invalid Key").WithField("key").
				WithExplanation("key is empty: want that of the object to delete, such as blue:web")
		}
		return nil
	case contivmodel.OpApply, contivmodel.OpCreate:
	default:
		return fault.New(fault.Invalid, "op %q is none of apply, create, delete", o.Op).WithField("op")
	}
	object, err := kind.Decode(o.Object)
	if err != nil {
		return err
	}
	t.Key = cmp.Or(o.Key, object.ModelKey())
	object.SetKey(t.Key)
	t.key, t.object = t.Key, object
	return contivmodel.Validate(object)
}
