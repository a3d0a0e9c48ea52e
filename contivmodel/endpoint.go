package contivmodel

// EndpointSegment is the route segment of endpoints, which can only be inspected.
const EndpointSegment = "endpoints"

// EndpointOper is the run-time view of one endpoint.
type EndpointOper struct {
	Key              string            `json:"key,omitempty"` // the text that was looked up
	ContainerID      string            `json:"containerID,omitempty"`
	ContainerName    string            `json:"containerName,omitempty"`
	Counters         *EndpointCounters `json:"counters,omitempty"` // only when one endpoint is inspected, if its node answers
	EndpointGroupID  int               `json:"endpointGroupId,omitempty"`
	EndpointGroupKey string            `json:"endpointGroupKey,omitempty"` // G:T
	EndpointID       string            `json:"endpointID,omitempty"`
	HomingHost       string            `json:"homingHost,omitempty"`
	IntfName         string            `json:"intfName,omitempty"`
	IPAddress        []string          `json:"ipAddress,omitempty"` // IPv4, IPv6; the latter may be missing
	Labels           string            `json:"labels,omitempty"`    // such as map[app:web tier:front]
	MacAddress       string            `json:"macAddress,omitempty"`
	Network          string            `json:"network,omitempty"`      // state id, N.T
	PodNamespace     string            `json:"podNamespace,omitempty"` // of a pod of Kubernetes, whose name is ContainerName
	ServiceName      string            `json:"serviceName,omitempty"`  // endpoint group
	VirtualPort      string            `json:"virtualPort,omitempty"`
	VtepIP           string            `json:"vtepIP,omitempty"`
}

// EndpointInspect is the response of inspect for an endpoint.
type EndpointInspect struct {
	Oper EndpointOper
}
