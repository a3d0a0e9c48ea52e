package checkup

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

// namesView is the used part of an agent's view of its name server. An agent of an earlier release does not report
// it.
type namesView struct {
	Server *struct {
		On         bool     `json:"on"`
		Listening  bool     `json:"listening"`
		Upstream   []string `json:"upstream"`
		Problem    string   `json:"problem"`
		PassedOver string   `json:"passedOver"`
	} `json:"server"`
}

// checkNames checks the name server of a node, if it has one.
func checkNames(ctx context.Context, host string, asked agent, report Report) {
	var view namesView
	answer, err := asked.get(ctx, "/inspect/nameserver")
	if err == nil {
		err = json.Unmarshal(answer, &view)
	}
	if err == nil && (view.Server == nil || !view.Server.On) {
		return
	}
	detail := "answered, others' by nobody"
	switch {
	case err != nil:
	case !view.Server.Listening:
		err = errors.New("nobody listens where endpoints ask")
	case len(view.Server.Upstream) > 0:
		detail = "answered, others' by " + strings.Join(view.Server.Upstream, ", ")
	}
	switch {
	case err != nil:
	case view.Server.Problem != "":
		detail += "; the last question had no answer: " + view.Server.Problem
	case view.Server.PassedOver != "":
		detail += "; passed over at the last question: " + view.Server.PassedOver
	}
	report.check("names "+host, "was "+host+" upgraded under its pods? then with the next pod made there; else see the log of netplugin", detail, err)
}
