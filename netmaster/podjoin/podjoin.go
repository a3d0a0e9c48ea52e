// Package podjoin lets daemons that run in pods of Kubernetes join their cluster with the token of their service
// account, so that they need no join token.
//
// Kubernetes knows on which node each pod runs, and gives it a token of its service account that says so. The
// token has an audience of its own, so that the API server itself does not accept it, and is bound to the pod, so
// that it expires with the pod. A daemon presents it to a netmaster, which has the API server review it (Vouch): a
// netplugin joins as the node of its pod and as no other, a netmaster receives the CAs.
//
// The CA certificates by which the daemon verifies netmasters are in a ConfigMap of their namespace, which the
// leader writes (Publish). They are not secret, and anyone who may write the ConfigMap can already decide what
// runs on the nodes.
package podjoin

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
)

const (
	// ConfigMap is the name of the ConfigMap with the CA certificates of netmasters, as PEM.
	ConfigMap = "contiv-authorities"
	// configMapKey is their key in the ConfigMap.
	configMapKey = "authorities.crt"
)

// Accounts of our daemons.
const (
	masters = "contiv-netmaster"
	nodes   = "contiv-netplugin"
)

// nodeOfToken is the key in a token review of the node of the token's pod.
const nodeOfToken = "authentication.kubernetes.io/node-name"

// maxToken is a bound above the length of any service account token, in bytes.
const maxToken = 16 << 10

// Cluster is the Kubernetes cluster that authenticates our daemons.
type Cluster struct {
	Client    kubernetes.Interface
	Namespace string // of our service accounts and of the ConfigMap
}

// Vouch returns the daemon of a token: the node, or the netmaster on the node, of its pod. Errors: fault.Denied
// for a token of no daemon, fault.Unavailable if the API server does not answer.
func (c Cluster) Vouch(ctx context.Context, token string) (identity.Identity, error) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return identity.Identity{}, denied("it is neither one of netctl token create nor one of a service account")
	}
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{mastercfg.JoinAudience}}}
	review, err := c.Client.AuthenticationV1().TokenReviews().Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return identity.Identity{}, fault.New(fault.Unavailable, "join token: the API server of Kubernetes does not say whose it is: %w", err)
	}
	return c.holder(review.Status)
}

// holder returns the daemon that the API server names in a token review.
func (c Cluster) holder(said authenticationv1.TokenReviewStatus) (identity.Identity, error) {
	if !said.Authenticated || !slices.Contains(said.Audiences, mastercfg.JoinAudience) {
		return identity.Identity{}, denied("Kubernetes does not know it as one for audience %s", mastercfg.JoinAudience)
	}
	kind := map[string]identity.Kind{c.user(masters): identity.Master, c.user(nodes): identity.Node}[said.User.Username]
	if kind == identity.Nobody {
		return identity.Identity{}, denied("it is that of %.200s, want %s or %s", said.User.Username, c.user(nodes), c.user(masters))
	}
	if node := said.User.Extra[nodeOfToken]; len(node) == 1 && identity.ValidName(node[0]) {
		return identity.Identity{Kind: kind, Name: node[0]}, nil
	}
	return identity.Identity{}, denied("it does not say on which node its pod is: want one that kubelet has put into a pod, of Kubernetes 1.30 or later")
}

// user returns the API server's user name of a service account.
func (c Cluster) user(account string) string {
	return "system:serviceaccount:" + c.Namespace + ":" + account
}

func denied(format string, args ...any) error {
	return fault.New(fault.Denied, "join token: "+format, args...)
}

// Anew returns the command that removes the CA certificates, so that a netmaster founds a new cluster.
func (c Cluster) Anew() string {
	return fmt.Sprintf(`kubectl --namespace %s patch configmap %s --type merge --patch '{"data":null}'`, c.Namespace, ConfigMap)
}

// Authorities returns the CA certificates that the leader has published for joining daemons. Errors:
// fault.NotFound before it has, fault.Unavailable if the API server does not answer.
func (c Cluster) Authorities(ctx context.Context) (*x509.CertPool, error) {
	written, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "authorities in ConfigMap %s/%s: %w", c.Namespace, ConfigMap, err)
	}
	if written.Data[configMapKey] == "" {
		return nil, fault.New(fault.NotFound, "ConfigMap %s/%s has no %s yet: the leader writes it", c.Namespace, ConfigMap, configMapKey)
	}
	pool, err := pki.Pool([]byte(written.Data[configMapKey]))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %s: %w", c.Namespace, ConfigMap, configMapKey, err)
	}
	return pool, nil
}
