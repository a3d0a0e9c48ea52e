package labels

import (
	"strings"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/utils/fault"
)

// containerLabels is the argument of CNI_ARGS that has a container's labels:
// key=value, separated by commas.
const containerLabels = "IO_CONTIV_LABELS"

// ofContiv is the prefix of the labels that assign a container to a tenant, network and group.
const ofContiv = "io.contiv."

// Container returns a container's labels without those with the prefix io.contiv: args.cni.labels merged with
// those of CNI_ARGS, which has precedence. Services select their providers by them.
func Container(args netconf.Args, conf *netconf.Conf) (map[string]string, error) {
	all := map[string]string{}
	for _, l := range conf.Args.CNI.Labels {
		if !strings.HasPrefix(l.Key, ofContiv) {
			all[l.Key] = l.Value
		}
	}
	for item := range strings.SplitSeq(args[containerLabels], ",") {
		if item == "" {
			continue
		}
		key, value, found := strings.Cut(item, "=")
		if !found || key == "" {
			return nil, fault.New(fault.Invalid, "CNI_ARGS: %s has %q, want key=value, such as app=web,tier=1", containerLabels, item)
		}
		all[key] = value
	}
	return all, nil
}
