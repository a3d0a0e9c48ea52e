package checkup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// checkRules names rules that match more than they seem to, which earlier versions accepted: with a port, but with
// a protocol without ports.
func checkRules(ctx context.Context, m Master, report Report) {
	kind, _ := contivmodel.KindByType("rule")
	all, err := m.List(ctx, kind)
	if err != nil {
		report.check("rules", "see the log of netmaster", "", err)
		return
	}
	var texts []string
	for _, o := range all {
		if r, ok := o.(*contivmodel.Rule); ok && r.IgnoresPort() {
			texts = append(texts, fmt.Sprintf("%s is for all ports, not for port %d, as protocol %q has none", r.Key, r.Port, r.Protocol))
		}
	}
	if len(texts) == 0 {
		return
	}
	if more := len(texts) - mostPending; more > 0 {
		texts = append(texts[:mostPending], fmt.Sprintf("and %d more", more))
	}
	report.check("rules", "remove them, and add them again with protocol tcp, udp or 132 (SCTP), or without a port", "", errors.New(strings.Join(texts, "; ")))
}
