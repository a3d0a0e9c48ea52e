package k8splugin

import (
	"encoding/json"
	"fmt"
	"net/http"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
)

// legacyRequest is the body of the first protocol.
type legacyRequest struct {
	PodName      string `json:"K8S_POD_NAME"`
	PodNamespace string `json:"K8S_POD_NAMESPACE"`
	ContainerID  string `json:"K8S_POD_INFRA_CONTAINER_ID"`
	Netns        string `json:"CNI_NETNS"`
	IfName       string `json:"CNI_IFNAME"`
}

// legacyResponse is the body of its response, for success and failure.
type legacyResponse struct {
	Result      uint   `json:"result,omitempty"` // 1: failed
	EndpointID  string `json:"endpointid"`
	IPAddress   string `json:"ipaddress"` // with prefix length
	IPv6Address string `json:"ipv6address"`
	ErrMsg      string `json:"errmsg"`
	ErrInfo     string `json:"errinfo"`
}

const legacyFailed = 1

// legacyConf replaces the network configuration, which the first protocol does not
// transmit: it is the one that the installer of that time wrote on every node.
var legacyConf = json.RawMessage(`{"cniVersion": "1.0.0", "name": "contiv-net", "type": "` + netconf.PluginType + `"}`)

// request converts l to a request of the present protocol.
func (l legacyRequest) request(command string) cniwire.Request {
	return cniwire.Request{
		Command:     command,
		ContainerID: l.ContainerID,
		Netns:       l.Netns,
		IfName:      l.IfName,
		Args: fmt.Sprintf("%s=%s;%s=%s;%s=%s", netconf.PodNamespace, l.PodNamespace,
			netconf.PodName, l.PodName, netconf.InfraContainerID, l.ContainerID),
		Stdin: legacyConf,
	}
}

// serveLegacy returns the handler of a command for a CNI binary of an earlier release.
func (s *Server) serveLegacy(command string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var old legacyRequest
		err := readBody(w, r, &old)
		var result []byte
		request := old.request(command)
		if err == nil {
			result, err = s.execute(r.Context(), request)
		}
		status, response := http.StatusOK, legacyResponse{EndpointID: old.ContainerID}
		if err == nil {
			err = response.addAddresses(result)
		}
		if err != nil {
			cause := cniError(err)
			s.logRefusal(request, cause)
			status = http.StatusInternalServerError
			response = legacyResponse{Result: legacyFailed, EndpointID: old.ContainerID, ErrMsg: cause.Msg, ErrInfo: cause.Details}
		}
		body, err := json.Marshal(response)
		if err != nil {
			s.Log.WithError(err).Error("encode answer")
		}
		s.answer(w, status, body)
	}
}

// addAddresses copies the addresses of a CNI result; DEL has no result.
func (l *legacyResponse) addAddresses(result []byte) error {
	if len(result) == 0 {
		return nil
	}
	var parsed types100.Result
	if err := json.Unmarshal(result, &parsed); err != nil {
		return fmt.Errorf("read own result: %w", err)
	}
	for _, ip := range parsed.IPs {
		if ip.Address.IP.To4() != nil {
			l.IPAddress = ip.Address.String()
		} else {
			l.IPv6Address = ip.Address.String()
		}
	}
	return nil
}
