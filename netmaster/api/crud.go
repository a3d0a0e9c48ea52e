package api

import (
	"bytes"
	"context"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// intent is a request to change an object, decoded and validated on its own.
type intent struct {
	kind   contivmodel.Kind
	key    string
	object contivmodel.Object // as sent; nil to delete
	only   rest.Condition
	dryRun bool
}

// intended returns the intent of a request, without the object.
func intended(r *http.Request, kind contivmodel.Kind) (intent, error) {
	dryRun, err := rest.Flag(r, "dryRun")
	if dryRun {
		auth.CallerFrom(r.Context()).SetSubject("dry run")
	}
	return intent{kind: kind, key: mux.Vars(r)["key"], only: rest.ConditionOf(r.Header), dryRun: dryRun}, err
}

// upsert creates an object, or updates the one with the same key, or with dryRun answers what would be stored.
func (a *API) upsert(r *http.Request) (rest.Reply, error) {
	kind := kindOf(r)
	body, err := rest.ReadBody(r)
	if err != nil {
		return rest.Reply{}, err
	}
	object, err := kind.Decode(body)
	if err != nil {
		return rest.Reply{}, err
	}
	in, err := intended(r, kind)
	if err != nil {
		return rest.Reply{}, err
	}
	in.object = object
	object.SetKey(in.key)
	if err := contivmodel.Validate(object); err != nil {
		return rest.Reply{}, err
	}
	exposed := a.exposed(r, object)
	said, err := a.commit(r.Context(), in)
	if err == nil {
		said.Warning = a.warnings(r.Context(), exposed, object)
	}
	return said, err
}

// remove deletes an object and answers its key.
func (a *API) remove(r *http.Request) (rest.Reply, error) {
	kind := kindOf(r)
	in, err := intended(r, kind)
	if err != nil {
		return rest.Reply{}, err
	}
	return a.commit(r.Context(), in)
}

// commit runs the plan for an intent in one transaction, or with dryRun only tries it.
func (a *API) commit(ctx context.Context, in intent) (rest.Reply, error) {
	t, ok := a.types[in.kind.Type]
	switch {
	case !ok && in.object == nil:
		return rest.Reply{}, objects.NotFound(in.kind.Type)
	case !ok:
		return rest.Reply{}, fault.New(fault.Unsupported, "Invalid object type")
	}
	var object contivmodel.Object
	var written []byte
	plan := func(tx *ledger.Tx) (err error) {
		c := a.change(ctx, tx)
		c.Blind = !in.only.Demands()
		object, err = in.apply(t, c)
		written, _ = tx.Get(mastercfg.ModelKey(in.kind.Type, in.key))
		if in.dryRun && object != nil {
			master.Complete(tx, object)
		}
		return err
	}
	if in.dryRun {
		return a.preview(ctx, in.key, plan, &object)
	}
	rev, err := a.ledger.Update(ctx, plan)
	if err != nil || object == nil {
		return rest.Reply{Body: in.key, Revision: rev}, err
	}
	tag, err := a.settle(object, written)
	contivmodel.Redact(object)
	return rest.Reply{Body: object, Revision: rev, Tag: tag}, err
}

// preview answers like commit, but stores nothing and has no revision.
func (a *API) preview(ctx context.Context, key string, plan func(*ledger.Tx) error, object *contivmodel.Object) (rest.Reply, error) {
	err := retryAfterStored(ctx, func() error { return a.ledger.Preview(ctx, plan) })
	if err != nil || *object == nil {
		return rest.Reply{Body: key}, err
	}
	contivmodel.Redact(*object)
	return rest.Reply{Body: *object}, nil
}

// apply executes the intent on the stored object, and returns the new stored object; nil if it was deleted.
func (in intent) apply(t objects.Type, c *objects.Change) (contivmodel.Object, error) {
	stored, err := t.Get(c, in.key)
	isNew := in.object != nil && fault.Is(err, fault.NotFound)
	if err != nil && !isNew {
		return nil, err
	}
	if err := in.checkCondition(c, !isNew); err != nil {
		return nil, err
	}
	if in.object == nil {
		return nil, t.Remove(c, stored)
	}
	if err := c.Bounded(in.object, isNew); err != nil {
		return nil, err
	}
	if isNew {
		return in.create(t, c)
	}
	wanted, err := c.Sealed(contivmodel.WithSecrets(in.object, stored), stored)
	if err != nil {
		return nil, err
	}
	return stored, t.Update(c, stored, wanted)
}

// create stores the object of an intent, whose key is free.
func (in intent) create(t objects.Type, c *objects.Change) (contivmodel.Object, error) {
	if err := contivmodel.CheckSecrets(in.object); err != nil {
		return nil, err
	}
	fresh, err := c.Sealed(in.object, nil)
	if err != nil {
		return nil, err
	}
	return t.Create(c, fresh)
}

// checkCondition checks the request's condition (If-Match and the like) against the stored object. A deleted object has no
// revision, even if the deletion is not committed yet.
func (in intent) checkCondition(c *objects.Change, exists bool) (err error) {
	revision := int64(0)
	if exists && in.only.Demands() {
		if revision, err = c.Tag(mastercfg.ModelKey(in.kind.Type, in.key)); err != nil {
			return err
		}
	}
	return in.only.Check(in.kind, in.key, revision)
}

// list answers all objects of a kind, sorted by key, or a stream of their changes.
func (a *API) list(r *http.Request) (rest.Reply, error) {
	kind := kindOf(r)
	switch watch, err := wantsWatch(r); {
	case err != nil:
		return rest.Reply{}, err
	case watch:
		return a.watch(r, kind)
	}
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		answer := rest.Reply{Body: []any{}, Revision: reader.Snapshot(mastercfg.ModelRoot)}
		scope, err := scopeOf(reader, kind, r)
		if err != nil {
			return rest.Reply{}, err
		}
		if t, ok := a.types[kind.Type]; ok {
			answer.Body = t.List(reader, scope.prefixes, scope.holds)
		}
		return answer, nil
	}}, nil
}

// get answers one object.
func (a *API) get(r *http.Request) (rest.Reply, error) {
	return a.read(r, func(_ objects.Type, reader ledger.Reader, stored contivmodel.Object) (rest.Reply, error) {
		tag, err := reader.Tag(mastercfg.ModelKey(stored.ModelType(), stored.ModelKey()))
		return rest.Reply{Body: stored, Tag: tag}, err
	})
}

// inspect answers one object with its operational state.
func (a *API) inspect(r *http.Request) (rest.Reply, error) {
	switch mux.Vars(r)["segment"] {
	case serviceSegment:
		return a.inspectService(r)
	case speakerSegment:
		return a.inspectSpeaker(r)
	}
	return a.read(r, func(t objects.Type, reader ledger.Reader, stored contivmodel.Object) (rest.Reply, error) {
		shown, err := t.Inspect(a.view(r.Context(), reader), stored)
		return rest.Reply{Body: shown}, err
	})
}

// read answers the result of show for a stored object.
func (a *API) read(r *http.Request, show func(objects.Type, ledger.Reader, contivmodel.Object) (rest.Reply, error)) (rest.Reply, error) {
	kind := kindOf(r)
	t, ok := a.types[kind.Type]
	if !ok {
		return rest.Reply{}, objects.NotFound(kind.Type)
	}
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		stored, err := t.Get(reader, mux.Vars(r)["key"])
		if err != nil {
			return rest.Reply{}, err
		}
		contivmodel.Redact(stored)
		return show(t, reader, stored)
	}}, nil
}

// settle completes the answer to a change: the object with its
// present links, and its entity tag unless it has changed again.
func (a *API) settle(object contivmodel.Object, written []byte) (tag int64, err error) {
	err = a.ledger.View(func(r ledger.Reader) error {
		key := mastercfg.ModelKey(object.ModelType(), object.ModelKey())
		master.Complete(r, object)
		if now, ok := r.Get(key); ok && bytes.Equal(now, written) {
			tag, _ = r.Tag(key) // the tag of another write would be that of another object
		}
		return nil
	})
	return tag, err
}
