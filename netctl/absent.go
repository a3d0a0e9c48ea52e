package netctl

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/utils/fault"
)

// isAbsent reports whether the requested object does not exist. If the server lacks the page, nothing is known
// about the object.
func isAbsent(err error) bool { return fault.Is(err, fault.NotFound) && !lacksPage(err) }

// lacksPage reports whether a server does not support the requested page at all.
func lacksPage(err error) bool {
	return fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), "page not found")
}

// absent completes the error for a missing object: it names the object, and existing ones with a similar name.
// Other errors are returned unchanged.
func (s *session) absent(err error, kind contivmodel.Kind, key string) error {
	if !isAbsent(err) {
		return err
	}
	if kind.Type == "" {
		return notAttached(fault.New(fault.NotFound, "endpoint not found: %s", key), key)
	}
	message := kind.Type + " not found: " + key
	name := key[strings.LastIndex(key, ":")+1:]
	tenant, _, _ := strings.Cut(key, ":")
	switch {
	case !scoped(kind):
		objects, _ := s.client.List(s.ctx, kind) // without them there is no hint
		message += didYouMean(name, namesOf(objects))
	default:
		tenants, err := client.List[contivmodel.Tenant](s.ctx, s.client)
		var known []string
		for _, t := range tenants {
			known = append(known, t.TenantName)
		}
		if err == nil && !slices.Contains(known, tenant) {
			message += "; there is no tenant " + tenant + didYouMean(tenant, known)
			break
		}
		objects, _ := s.client.ListTenant(s.ctx, kind, tenant)
		message += didYouMean(name, namesOf(slices.DeleteFunc(objects, func(o contivmodel.Object) bool {
			return !strings.HasPrefix(o.ModelKey(), strings.TrimSuffix(key, name))
		})))
	}
	return fault.New(fault.NotFound, "%s", message)
}

// notAttached adds to the error about a missing endpoint, if one was named as NAMESPACE/POD, which pods have none.
func notAttached(err error, names ...string) error {
	if !isAbsent(err) || !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "/") }) {
		return err
	}
	return fault.As(err).WithDetails("a pod in the network of its host has none, and one that has ended")
}

func namesOf(objects []contivmodel.Object) []string {
	var names []string
	for _, o := range objects {
		names = append(names, nameOf(o))
	}
	return names
}

// kindOf returns the kind of a type, which must be in the model.
func kindOf(typ string) contivmodel.Kind {
	kind, _ := contivmodel.KindByType(typ)
	return kind
}
