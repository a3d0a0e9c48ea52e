// Package objects is what it means to create, update, delete and inspect an object of the model: for each
// type, in a file of its own, the plans that do it.
//
// A plan is a function of one transaction. It reads what it needs, refuses in the documented order with the
// documented text, and puts the object and everything that follows from it, such as the records that agents
// read (netmaster/master). Nothing happens outside of the transaction, so a refused plan leaves no trace.
//
// What is checked for all types alike is here, too: what administrators of a tenant may not (bounds.go), and
// secret fields, which the store keeps sealed (sealing.go).
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

// Config is what plans need to know of the daemon.
type Config struct {
	ClusterMode string             // docker, kubernetes, swarm-mode, cni, test
	Defaults    contivmodel.Global // what the global object gets where a request leaves a mode open
	Keyring     *keyring.Keyring   // of secrets in the store; nil: none are kept
	Log         *logrus.Entry
}

// Caller is the client that asks for a change, in a cluster whose clients have rights.
type Caller interface {
	fmt.Stringer
	// OfTenants tells whether the caller may change objects of tenants only, and nothing of the cluster.
	OfTenants(r ledger.Reader) (bool, error)
	// Deny is the refusal of what the caller may not. Where refusals are only noted, it is nil.
	Deny(format string, args ...any) error
	// Exceed is the refusal of what is beyond a bound of the caller. Where refusals are only noted, it is nil.
	Exceed(format string, args ...any) error
}

// Change is one plan in progress.
type Change struct {
	*ledger.Tx
	Config *Config
	By     Caller // nil: netmaster itself, or anybody in an open cluster
	Blind  bool   // it is by a client that says all it knows of an object, and not which state of it it has seen
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

// View is one look at the state: a snapshot, and what an answer needs besides it.
type View struct {
	ledger.Reader
	ClusterMode string
	OfCluster   bool                                           // who looks may see what is of no tenant
	Speaker     func(host string) (contivmodel.BgpOper, error) // asks a node how its BGP fares
}

// Type is what can be done with the objects of one type.
type Type interface {
	// List are the objects whose keys in the store begin with one of the prefixes, as far as holds is true
	// of them.
	List(r ledger.Reader, prefixes []string, holds func(key string) bool) jsonstream.Array
	// Get is an object with its links; an error of the kind fault.NotFound: there is none.
	Get(r ledger.Reader, key string) (contivmodel.Object, error)
	// Create stores an object that is not there, and returns it as it is stored. What was sent stays as it was.
	Create(c *Change, sent contivmodel.Object) (contivmodel.Object, error)
	// Update changes the stored object, which Get has returned, towards the wanted one.
	Update(c *Change, stored, wanted contivmodel.Object) error
	// Remove deletes an object, which Get has returned.
	Remove(c *Change, stored contivmodel.Object) error
	// Inspect is the object and what is known of it at run time.
	Inspect(v *View, stored contivmodel.Object) (any, error)
}

// Types are the types of the model that can be worked with, by name. The others can be listed, and
// hold nothing.
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
		"serviceLB":         of(createServiceLB, updateServiceLB, removeServiceLB, configOnly), // InspectService tells more
		"Bgp":               of(createBgp, updateBgp, removeBgp, inspectBgp),
	}
}

// typed is the type T.
//
// creates gets the object as it was sent, validated and without links; it
// stores the object and everything that follows from it. updates changes the
// stored object towards the wanted one and stores it. removes takes the stored
// object and everything that followed from it away. Link-sets that list other
// objects need no care: they are not stored, and complete in a stored object
// that updates, removes and inspects get (master/links.go).
type typed[T any, P contivmodel.Pointer[T]] struct {
	creates  func(*Change, P) error
	updates  func(c *Change, stored, wanted P) error
	removes  func(*Change, P) error
	inspects func(*View, P) (any, error)
}

// of makes a Type of the functions of one.
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

// Create leaves the object as it was sent: a plan may run again.
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

// configOnly answers inspection of types without run-time data.
func configOnly[T any, P contivmodel.Pointer[T]](_ *View, o P) (any, error) {
	return contivmodel.ConfigInspect[T]{Config: *o}, nil
}

// inspection is the answer to inspect with a run-time view that is made late.
func inspection(answer any, oper jsonstream.Object) jsonstream.Object {
	return jsonstream.Object{Of: answer, Late: map[string]any{"Oper": oper}}
}

func NotFound(objType string) error { return fault.New(fault.NotFound, "%s not found", objType) }
