package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// user is a user that the API server authenticates by a token.
type user struct{ name, groups string }

var admin = user{"admin", "system:masters"}

func kubelet(n *testbed.Node) user { return user{"system:node:" + n.Name, "system:nodes"} }

// writeCredentials writes the API server's certificate, its key for signing service account tokens, and tokens for
// the administrator, our daemons and the kubelets.
func (c *Cluster) writeCredentials() error {
	if err := os.MkdirAll(c.file(""), 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(c.file("server.key"), "EC PRIVATE KEY", der); err != nil {
		return err
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, // clients trust this very certificate
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"kubernetes", "kubernetes.default", serverName, "localhost"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(c.control().MgmtIP), net.ParseIP(c.first().api)},
	}
	if der, err = x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key); err != nil {
		return err
	}
	if err := writePEM(c.authority(), "CERTIFICATE", der); err != nil {
		return err
	}
	return c.writeTokens()
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (c *Cluster) writeTokens() error {
	users := []user{admin, controller}
	for _, n := range c.Nodes {
		users = append(users, kubelet(n))
	}
	var tokens strings.Builder
	for _, u := range users {
		token := rand.Text()
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", token, u.name, u.name, u.groups)
		if err := os.WriteFile(c.tokenFile(u), []byte(token), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(c.file("tokens.csv"), []byte(tokens.String()), 0o600)
}

func (c *Cluster) tokenFile(u user) string {
	return c.file(strings.ReplaceAll(u.name, ":", "-") + ".token")
}

func (c *Cluster) token(u user) (string, error) {
	token, err := os.ReadFile(c.tokenFile(u))
	return string(token), err
}

// serverName is the API server's name for pods.
const serverName = "kubernetes.default.svc"

// authority returns the path of the certificate that clients of the API server trust: its own.
func (c *Cluster) authority() string { return c.file("server.crt") }

// writeKubeconfig writes the kubeconfig of a user for the API server.
func (c *Cluster) writeKubeconfig(path, server string, u user) error {
	token, err := c.token(u)
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(c.authority())
	if err != nil {
		return err
	}
	type object = map[string]any
	data, err := json.MarshalIndent(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "contiv",
		"clusters": []object{{"name": "contiv", "cluster": object{"server": server, "certificate-authority-data": authority}}},
		"users":    []object{{"name": u.name, "user": object{"token": token}}},
		"contexts": []object{{"name": "contiv", "context": object{"cluster": "contiv", "user": u.name}}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}
