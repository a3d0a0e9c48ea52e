package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// user is somebody whom the API server knows by a token.
type user struct{ name, groups string }

var admin = user{"admin", "system:masters"}

func kubelet(n *testbed.Node) user { return user{"system:node:" + n.Name, "system:nodes"} }

// writeCredentials makes the key with which tokens of service accounts are signed, and tokens for
// the administrator and the kubelets.
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
	if err := os.WriteFile(c.file("accounts.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return err
	}
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

// The API server makes its certificate itself; its only name that does not depend on where it
// is reached is this one.
const serverName = "kubernetes.default.svc"

// writeKubeconfig makes the file by which a client reaches the API server as the user.
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
		"clusters": []object{{"name": "contiv", "cluster": object{
			"server": server, "tls-server-name": serverName, "certificate-authority-data": authority,
		}}},
		"users":    []object{{"name": u.name, "user": object{"token": token}}},
		"contexts": []object{{"name": "contiv", "context": object{"cluster": "contiv", "user": u.name}}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}
