// Package k8sutils connects the daemons to the Kubernetes API server of contiv.json, and redirects the log of its
// client.
package k8sutils

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// DefaultPath is the default location of the file for both daemons.
const DefaultPath = "/var/contiv/config/contiv.json"

const (
	defaultServiceSubnet = "10.254.0.0/16"
	serviceAccount       = "/var/run/secrets/kubernetes.io/serviceaccount/" // of the pod of this program
	serviceAccountToken  = serviceAccount + "token"
)

// Config is the content of contiv.json.
type Config struct {
	APIServer     string `json:"K8S_API_SERVER"` // base URLs of the API servers, separated by commas
	CAFile        string `json:"K8S_CA"`
	CertFile      string `json:"K8S_CERT"`
	KeyFile       string `json:"K8S_KEY"`
	Token         string `json:"K8S_TOKEN"`
	ServiceSubnet string `json:"SVC_SUBNET"`
	// TokenFile is used without a token and without a certificate. It is read again when it is rotated.
	TokenFile string `json:"K8S_TOKEN_FILE"`
}

// Load reads the file. Without a file, or if it names no API server, the error is fault.NotFound: the node has no
// Kubernetes.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fault.New(fault.NotFound, "kubernetes configuration %s does not exist", path)
	}
	if err != nil {
		return Config{}, fmt.Errorf("kubernetes configuration: %w", err)
	}
	c, err := parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("kubernetes configuration %s: %w", path, err)
	}
	return c, nil
}

// InPod returns the configuration of a program in a pod, with the credentials of its service account. The server
// is an argument: the service of the API server needs a pod network, which this project provides.
func InPod(server string) (Config, error) {
	data, err := json.Marshal(Config{APIServer: server, CAFile: serviceAccount + "ca.crt"})
	if err != nil {
		return Config{}, err
	}
	return parse(data)
}

// Namespace returns the namespace of this program's pod.
func Namespace() (string, error) {
	text, err := os.ReadFile(serviceAccount + "namespace")
	if err != nil {
		return "", fmt.Errorf("namespace of this pod: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// parse parses the content of the file, sets defaults and returns every violation.
func parse(data []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fault.New(fault.Malformed, "%w", err)
	}
	if c.ServiceSubnet == "" {
		c.ServiceSubnet = defaultServiceSubnet
	}
	if c.TokenFile == "" {
		c.TokenFile = serviceAccountToken
	}
	if c.APIServer == "" {
		return Config{}, fault.New(fault.NotFound, "K8S_API_SERVER is missing")
	}
	var errs []error
	servers, err := parseServers(c.APIServer)
	if err != nil {
		errs = append(errs, err)
	} else if servers[0].Scheme == "https" && c.CAFile == "" {
		errs = append(errs, fault.New(fault.Invalid, "K8S_CA is missing: it is needed to trust %s", c.APIServer))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, fault.New(fault.Invalid, "K8S_CERT %q, K8S_KEY %q: one without the other", c.CertFile, c.KeyFile))
	}
	if _, err := netip.ParsePrefix(c.ServiceSubnet); err != nil {
		errs = append(errs, fault.New(fault.Invalid, "SVC_SUBNET %q: %w", c.ServiceSubnet, err))
	}
	return c, errors.Join(errs...)
}
