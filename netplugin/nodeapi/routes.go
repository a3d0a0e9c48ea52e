package nodeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/utils/dpkg"
	"github.com/contiv/netplugin/utils/fault"
)

type handlers struct {
	Config
	big     chan struct{} // a place for each concurrent long answer
	traces  chan struct{} // the same for requests that wait for the switch
	origins *http.CrossOriginProtection
}

// statuses maps the kinds of errors on these routes; others are 500.
var statuses = map[fault.Kind]int{
	fault.NotFound: http.StatusNotFound,
	fault.Invalid:  http.StatusBadRequest,
	fault.Conflict: http.StatusConflict,
	fault.Denied:   http.StatusForbidden,

	fault.Unauthenticated: http.StatusUnauthorized,
	fault.Unavailable:     http.StatusServiceUnavailable,
}

// versionTimeout limits how long the switch may take to report its version and its listeners.
const versionTimeout = time.Second

// alive answers unless the agent hangs: it only needs the agent to return its state, whatever it is.
func (h handlers) alive(w http.ResponseWriter, _ *http.Request) {
	_ = h.Agent.Ready()
	h.text(w, http.StatusOK, "ok")
}

// ready answers whether pods are served and can reach other nodes,
// for which the registration of this node must be accepted.
func (h handlers) ready(w http.ResponseWriter, _ *http.Request) {
	err := h.Agent.Ready()
	if err == nil && h.Refused != nil {
		if err = h.Refused(); err != nil {
			err = fmt.Errorf("the cluster refuses this node: %w", err)
		}
	}
	if err != nil {
		h.text(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	h.text(w, http.StatusOK, "ok")
}

func (h handlers) inspectDriver(w http.ResponseWriter, r *http.Request) {
	view := driverView(h.CtrlIP, h.Agent.Inspect())
	if err := h.version(r.Context(), &view.VXLAN.Datapath); err != nil {
		view.VXLAN.ErrStats["Version"] = err.Error()
	}
	if err := h.listeners(r.Context(), &view.VXLAN.Datapath); err != nil {
		view.VXLAN.ErrStats["Listeners"] = err.Error()
	}
	switch where, err := h.kubeProxy(r.Context()); {
	case err != nil: // such as on a host without nft(8)
		view.VXLAN.ErrStats["KubeProxyUnknown"] = err.Error()
	case where != "":
		view.VXLAN.ErrStats["KubeProxy"] = where
	}
	if h.Host != nil {
		setProblems(view.VXLAN.ErrStats, "HostAccess", h.Host)
	}
	setProblems(view.VXLAN.ErrStats, "PodConfiguration", h.Pods...)
	h.json(w, view)
}

// setProblems sets an entry to the texts that are not empty, if there is one.
func setProblems(stats map[string]string, entry string, problems ...func() string) {
	var texts []string
	for _, problem := range problems {
		if text := problem(); text != "" {
			texts = append(texts, text)
		}
	}
	if len(texts) > 0 {
		stats[entry] = strings.Join(texts, "; ")
	}
}

// version sets which Open vSwitch runs. The package is reported only if it has the same release: the switch may
// run elsewhere, for example in another container, than what is installed here.
func (h handlers) version(ctx context.Context, of *datapathView) error {
	if h.Release == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	release, err := h.Release(ctx)
	if err != nil {
		return err
	}
	of.Version = release
	installed, err := h.Package()
	if err != nil || dpkg.Upstream(installed) != release {
		return err
	}
	of.Package = installed
	of.Replaced, err = h.Replaced(ctx)
	return err
}

// listeners sets where other programs can control the switch.
func (h handlers) listeners(ctx context.Context, of *datapathView) (err error) {
	if h.Listeners == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	of.Listeners, err = h.Listeners(ctx)
	return err
}

// kubeProxy returns where the rules of kube-proxy are.
func (h handlers) kubeProxy(ctx context.Context) (string, error) {
	if h.KubeProxy == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	return h.KubeProxy(ctx)
}

// inspectTunnels answers which other nodes respond through the tunnel, by host.
func (h handlers) inspectTunnels(w http.ResponseWriter, r *http.Request) {
	if h.Tunnels == nil {
		h.fail(w, fault.New(fault.Unavailable, "%s: there is no switch to ask", r.URL.Path))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), tunnelsTimeout)
	defer cancel()
	answered, err := h.Tunnels(ctx)
	if err != nil {
		h.fail(w, err)
		return
	}
	h.json(w, answered)
}

// inspectBGP answers null unless the node is configured as a BGP router.
func (h handlers) inspectBGP(w http.ResponseWriter, _ *http.Request) {
	if h.BGP == nil {
		h.json(w, nil)
		return
	}
	h.json(w, h.BGP())
}

// inspectNameserver answers records and statistics by tenant. The queues of the original agent are empty.
func (h handlers) inspectNameserver(w http.ResponseWriter, _ *http.Request) {
	h.json(w, map[string]any{
		"serviceQueue": []any{}, "endpointQueue": []any{},
		"dnsRecords": h.Names.Records(), "stats": h.Names.Stats().Tenants,
		"server": h.Names.State(),
	})
}

// inspectEndpoint answers which container uses an endpoint here; 404 if none does.
func (h handlers) inspectEndpoint(w http.ResponseWriter, r *http.Request) {
	epID := mux.Vars(r)["epID"]
	user, err := h.Attachments.User(epID)
	if err != nil {
		h.fail(w, err)
		return
	}
	h.json(w, map[string]string{"endpoint": epID, "user": user})
}

// reclaimEndpoint releases an endpoint whose container is gone.
func (h handlers) reclaimEndpoint(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), reclaimTimeout)
	defer cancel()
	epID := mux.Vars(r)["epID"]
	log := h.Log.WithField("endpoint", epID).WithField("client", r.RemoteAddr)
	if err := h.Attachments.Reclaim(ctx, epID); err != nil {
		log.WithError(err).Warn("reclaim of an endpoint failed")
		h.fail(w, err)
		return
	}
	log.Info("endpoint reclaimed")
	h.json(w, nil)
}

func (h handlers) fail(w http.ResponseWriter, err error) {
	status, known := statuses[fault.KindOf(err)]
	if !known {
		status = http.StatusInternalServerError
	}
	h.text(w, status, err.Error())
}

func (h handlers) json(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		h.Log.WithError(err).Error("answer cannot be encoded")
		h.text(w, http.StatusInternalServerError, "answer cannot be encoded: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	h.write(w, append(body, '\n'))
}

func (h handlers) text(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	h.write(w, []byte(text+"\n"))
}

func (h handlers) write(w http.ResponseWriter, body []byte) {
	if _, err := w.Write(body); err != nil {
		h.Log.WithError(err).Debug("client left before the answer was written")
	}
}
