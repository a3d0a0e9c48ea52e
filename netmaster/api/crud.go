package api

import (
	"context"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// intent is a request to change an object, understood and checked by itself.
type intent struct {
	kind   contivmodel.Kind
	key    string
	object contivmodel.Object // as sent; nil to delete
	only   condition
}

// upsert creates an object, or updates the one that has the key.
func (a *API) upsert(r *http.Request) (reply, error) {
	kind, err := kindOf(r)
	if err != nil {
		return reply{}, err
	}
	body, err := ReadBody(r)
	if err != nil {
		return reply{}, err
	}
	object, err := kind.Decode(body)
	if err != nil {
		return reply{}, err
	}
	key := mux.Vars(r)["key"]
	object.SetKey(key)
	if err := contivmodel.Validate(object); err != nil {
		return reply{}, err
	}
	warning := a.exposed(r, object)
	said, err := a.commit(r.Context(), intent{kind, key, object, conditionOf(r.Header)})
	said.warning = warning
	return said, err
}

// remove deletes an object and answers with its key.
func (a *API) remove(r *http.Request) (reply, error) {
	kind, err := kindOf(r)
	if err != nil {
		return reply{}, err
	}
	return a.commit(r.Context(), intent{kind: kind, key: mux.Vars(r)["key"], only: conditionOf(r.Header)})
}

// commit runs the plan for an intent in one transaction.
func (a *API) commit(ctx context.Context, in intent) (reply, error) {
	t, ok := a.types[in.kind.Type]
	switch {
	case !ok && in.object == nil:
		return reply{}, objects.NotFound(in.kind.Type)
	case !ok:
		return reply{}, fault.New(fault.Unsupported, "Invalid object type")
	}
	var object contivmodel.Object
	var written []byte
	rev, err := a.ledger.Update(ctx, func(tx *ledger.Tx) (err error) {
		object, err = in.apply(t, a.change(ctx, tx))
		written, _ = tx.Get(mastercfg.ModelKey(in.kind.Type, in.key))
		return err
	})
	if err != nil || object == nil {
		return reply{body: in.key, revision: rev}, err
	}
	tag, err := a.settle(object, written)
	contivmodel.Redact(object)
	return reply{body: object, revision: rev, tag: tag}, err
}

// apply decides what the intent means for the object as it is stored, and
// returns what is stored then; nil if it was deleted.
func (in intent) apply(t objects.Type, c *objects.Change) (contivmodel.Object, error) {
	stored, err := t.Get(c, in.key)
	if err != nil && (in.object == nil || !fault.Is(err, fault.NotFound)) {
		return nil, err
	}
	revision := c.Revision(mastercfg.ModelKey(in.kind.Type, in.key))
	if stored == nil {
		revision = 0 // it is gone, though its deletion may not be committed yet
	}
	if err := in.only.check(in.kind, in.key, revision); err != nil {
		return nil, err
	}
	if in.object != nil {
		if err := c.Bounded(in.object, stored == nil); err != nil {
			return nil, err
		}
	}
	switch {
	case in.object == nil:
		return nil, t.Remove(c, stored)
	case err != nil:
		if err := contivmodel.CheckSecrets(in.object); err != nil {
			return nil, err
		}
		fresh, err := c.Sealed(in.object, nil)
		if err != nil {
			return nil, err
		}
		return t.Create(c, fresh)
	}
	wanted, err := c.Sealed(contivmodel.WithSecrets(in.object, stored), stored)
	if err != nil {
		return nil, err
	}
	return stored, t.Update(c, stored, wanted)
}

// list answers with all objects of a kind, sorted by key, or with a stream of their changes.
func (a *API) list(r *http.Request) (reply, error) {
	kind, err := kindOf(r)
	if err != nil {
		return reply{}, err
	}
	switch watch, err := wantsWatch(r); {
	case err != nil:
		return reply{}, err
	case watch:
		return a.watch(r, kind)
	}
	return reply{from: func(reader ledger.Reader) (reply, error) {
		answer := reply{body: []any{}, revision: reader.Snapshot(mastercfg.ModelRoot)}
		scope, err := scopeOf(reader, kind, r)
		if err != nil {
			return reply{}, err
		}
		if t, ok := a.types[kind.Type]; ok {
			answer.body = t.List(reader, scope.prefixes, scope.holds)
		}
		return answer, nil
	}}, nil
}

// get answers with one object.
func (a *API) get(r *http.Request) (reply, error) {
	return a.read(r, func(_ objects.Type, reader ledger.Reader, stored contivmodel.Object) (reply, error) {
		return reply{body: stored, tag: reader.Revision(mastercfg.ModelKey(stored.ModelType(), stored.ModelKey()))}, nil
	})
}

// inspect answers with one object and what is known of it at run time.
func (a *API) inspect(r *http.Request) (reply, error) {
	if mux.Vars(r)["segment"] == contivmodel.EndpointSegment {
		return a.inspectEndpoint(r)
	}
	if mux.Vars(r)["segment"] == serviceSegment {
		return a.inspectService(r)
	}
	return a.read(r, func(t objects.Type, reader ledger.Reader, stored contivmodel.Object) (reply, error) {
		shown, err := t.Inspect(a.view(r.Context(), reader), stored)
		return reply{body: shown}, err
	})
}

// read answers with what show makes of a stored object.
func (a *API) read(r *http.Request, show func(objects.Type, ledger.Reader, contivmodel.Object) (reply, error)) (reply, error) {
	kind, err := kindOf(r)
	if err != nil {
		return reply{}, err
	}
	t, ok := a.types[kind.Type]
	if !ok {
		return reply{}, objects.NotFound(kind.Type)
	}
	return reply{from: func(reader ledger.Reader) (reply, error) {
		stored, err := t.Get(reader, mux.Vars(r)["key"])
		if err != nil {
			return reply{}, err
		}
		contivmodel.Redact(stored)
		return show(t, reader, stored)
	}}, nil
}
