// Package objects implements create, update, delete and inspect of the
// objects of the model: the plans of each type, in a file of its own.
//
// A plan is a function of one transaction. It reads what it needs, refuses in the documented order with the
// documented text, and writes the object and all records that follow from it, such as those that agents read
// (netmaster/master). Nothing happens outside of the transaction, so a refused plan leaves no trace.
//
// Checks that all types share are here as well: the limits of tenant administrators (bounds.go), and secret
// fields, which the store has encrypted (sealing.go).
package objects

import (
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Config configures plans.
type Config struct {
	ClusterMode string             // docker, kubernetes, swarm-mode, cni, test
	Defaults    contivmodel.Global // of the global object, for modes that a request leaves empty
	Keyring     *keyring.Keyring   // encrypts secrets in the store; nil: there are no secrets
	Log         *logrus.Entry
}

// Caller is the client that asks for a change, in a cluster whose clients have rights.
type Caller interface {
	fmt.Stringer
	// OfTenants reports whether the caller may change objects of tenants only, and nothing of the cluster.
	OfTenants(r ledger.Reader) (bool, error)
	// Deny returns the refusal of something that the caller has no right to; nil where refusals are only recorded.
	Deny(format string, args ...any) error
	// Exceed returns the refusal of something that exceeds a
	// limit of the caller; nil where refusals are only recorded.
	Exceed(format string, args ...any) error
}

// Change is one plan in progress.
type Change struct {
	*ledger.Tx
	Config *Config
	By     Caller // nil: netmaster itself, or any client of an open cluster
	Blind  bool   // by a client that sends whole objects without naming the revision that it has read
}

// put stores model objects.
func (c *Change) put(objects ...contivmodel.Object) error {
	for _, o := range objects {
		if err := master.Put(c.Tx, o); err != nil {
			return err
		}
	}
	return nil
}

// View is a snapshot of the state, and what an answer needs besides it.
type View struct {
	ledger.Reader
	ClusterMode string
	OfCluster   bool // the caller may read objects outside of tenants
}

// Type has the operations on the objects of one type.
type Type interface {
	// List returns the objects whose keys begin with one of the prefixes, and for which holds returns true.
	List(r ledger.Reader, prefixes []string, holds func(key string) bool) jsonstream.Array
	// Get returns an object with its links; fault.NotFound if it does not exist.
	Get(r ledger.Reader, key string) (contivmodel.Object, error)
	// Create stores a new object, and returns its stored form. It does not change sent.
	Create(c *Change, sent contivmodel.Object) (contivmodel.Object, error)
	// Update changes the stored object, which Get has returned, towards the wanted one.
	Update(c *Change, stored, wanted contivmodel.Object) error
	// Remove deletes an object, which Get has returned.
	Remove(c *Change, stored contivmodel.Object) error
	// Inspect returns the object with its operational state.
	Inspect(v *View, stored contivmodel.Object) (any, error)
}

// Types returns the supported types of the model, by name. Other types can be listed, and have no objects.
func Types() map[string]Type {
	return map[string]Type{
		"global":            of(createGlobal, updateGlobal, removeGlobal, inspectGlobal),
		"tenant":            of(createTenant, updateTenant, removeTenant, inspectTenant),
		"network":           of(createNetwork, updateNetwork, removeNetwork, inspectNetwork),
		"endpointGroup":     of(createGroup, updateGroup, removeGroup, inspectGroup),
		"policy":            of(createPolicy, updatePolicy, removePolicy, inspectPolicy),
		"rule":              of(createRule, updateRule, removeRule, configOnly),
		"netprofile":        of(createNetprofile, updateNetprofile, removeNetprofile, configOnly),
		"extContractsGroup": of(createContracts, updateContracts, removeContracts, configOnly),
		"appProfile":        of(createAppProfile, updateAppProfile, removeAppProfile, configOnly),
		"aciGw":             of(createAciGw, updateAciGw, removeAciGw, inspectAciGw),
		"serviceLB":         of(createServiceLB, updateServiceLB, removeServiceLB, configOnly), // InspectService returns more
		"Bgp":               of(createBgp, updateBgp, removeBgp, configOnly),                   // package api asks the node
	}
}

// typed implements Type for T.
//
// creates gets the validated object without links; it stores the object and all records that follow from it.
// updates changes the stored object towards the wanted one and stores it. removes deletes the stored object and
// all records that followed from it. Link-sets of other objects need no care: they are not stored, and complete
// in the stored object that updates, removes and inspects get (master/links.go).
type typed[T any, P contivmodel.Pointer[T]] struct {
	creates  func(*Change, P) error
	updates  func(c *Change, stored, wanted P) error
	removes  func(*Change, P) error
	inspects func(*View, P) (any, error)
}

// of returns the Type of these functions.
func of[T any, P contivmodel.Pointer[T]](creates func(*Change, P) error, updates func(c *Change, stored, wanted P) error,
	removes func(*Change, P) error, inspects func(*View, P) (any, error)) Type {
	return typed[T, P]{creates, updates, removes, inspects}
}

func (typed[T, P]) List(r ledger.Reader, prefixes []string, holds func(key string) bool) jsonstream.Array {
	return func(item func(any) error) error {
		for _, prefix := range prefixes {
			err := ledger.ReadEach(r, prefix, func(key string, o T) error {
				if !holds(key) {
					return nil
				}
				master.Complete(r, P(&o))
				contivmodel.Redact(P(&o))
				return item(o)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func (typed[T, P]) Get(r ledger.Reader, key string) (contivmodel.Object, error) {
	o, err := master.Get[T, P](r, key, NotFound(P(new(T)).ModelType()))
	if err != nil {
		return nil, err
	}
	master.Complete(r, o)
	return o, nil
}

// Create copies the object first: a plan may run again.
func (t typed[T, P]) Create(c *Change, sent contivmodel.Object) (contivmodel.Object, error) {
	fresh := *sent.(P)
	return P(&fresh), t.creates(c, &fresh)
}

func (t typed[T, P]) Update(c *Change, stored, wanted contivmodel.Object) error {
	return t.updates(c, stored.(P), wanted.(P))
}

func (t typed[T, P]) Remove(c *Change, o contivmodel.Object) error { return t.removes(c, o.(P)) }

func (t typed[T, P]) Inspect(v *View, o contivmodel.Object) (any, error) {
	return t.inspects(v, o.(P))
}

// configOnly is the inspection of types without run-time data.
func configOnly[T any, P contivmodel.Pointer[T]](_ *View, o P) (any, error) {
	return contivmodel.ConfigInspect[T]{Config: *o}, nil
}

// inspection returns an inspection whose run-time view is computed late.
func inspection(answer any, oper jsonstream.Object) jsonstream.Object {
	return jsonstream.Object{Of: answer, Late: map[string]any{"Oper": oper}}
}

func NotFound(objType string) error { return fault.New(fault.NotFound, "%s not found", objType) }
