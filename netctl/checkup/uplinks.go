package checkup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkUplinks checks the connection of a node to the physical network, if it has one.
func (v switchView) checkUplinks(host string, report Report) {
	if v.VLAN == nil {
		return
	}
	names := slices.Sorted(maps.Keys(v.VLAN.Uplinks))
	var wrong []string
	for _, name := range names {
		if problem := v.VLAN.Uplinks[name]; problem != "" {
			wrong = append(wrong, problem)
		}
	}
	err := v.VLAN.trouble()
	switch {
	case len(wrong) > 0:
		err = errors.New(strings.Join(wrong, "; "))
		if working := len(names) - len(wrong); working > 0 {
			err = fmt.Errorf("%w; %d of %d go on", err, working, len(names))
		}
	case err == nil && v.VLAN.ErrStats["LastError"] != "":
		err = errors.New(v.VLAN.ErrStats["LastError"])
	}
	report.check("uplinks "+host, "see docs/operations.md, The uplink, and the log of netplugin on "+host, strings.Join(names, ", ")+" up", err)
}

// mostPending is the maximum number of pending objects that are named.
const mostPending = 3

// checkPending reports objects that a node should serve and cannot, such as a network on a VLAN without an uplink.
func (v switchView) checkPending(host string, report Report) {
	pending := v.VXLAN.Datapath.Pending
	if len(pending) == 0 {
		return
	}
	var texts []string
	for _, what := range slices.Sorted(maps.Keys(pending))[:min(len(pending), mostPending)] {
		texts = append(texts, what+": "+pending[what])
	}
	if more := len(pending) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	report.check("served "+host, "see what is missing: a node without --vlan-uplinks has no networks of encapsulation vlan, one without --vtep-ip no tunnel",
		"", errors.New(strings.Join(texts, "; ")))
}
