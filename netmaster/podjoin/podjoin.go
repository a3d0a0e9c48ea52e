// Package podjoin lets daemons that run in pods of Kubernetes join their cluster with the token of their
// service account, so that nobody has to give them a join token.
//
// Kubernetes knows which pod runs on which node, and gives each a token of its service
// account that says so. The token is for an audience of its own, so that the API server itself
// does not take it, and is bound to the pod, so that it ends with that. A daemon shows it to a
// netmaster, which asks the API server whose it is (Vouch): a netplugin joins as the node that
// its pod is on and as no other, a netmaster is given the authorities.
//
// What the daemon believes netmasters by is in a ConfigMap of their namespace, which the leader
// writes (Publish). It is no secret, and whoever may write it already decides what runs on the
// nodes.
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
	// ConfigMap has the authorities of netmasters, as PEM.
	ConfigMap = "contiv-authorities"
	// Key is where they are in it.
	Key = "authorities.crt"
)

// Accounts of our daemons.
const (
	masters = "contiv-netmaster"
	nodes   = "contiv-netplugin"
)

// nodeOfToken is where the API server says on which node the pod of a token is.
const nodeOfToken = "authentication.kubernetes.io/node-name"

// maxToken is more than a token of a service account has, in bytes.
const maxToken = 16 << 10

// Cluster is the Kubernetes that vouches for our daemons.
type Cluster struct {
	Client    kubernetes.Interface
	Namespace string // of our service accounts and of the ConfigMap
}

// Vouch tells which daemon a token is of: the node or the netmaster on the node of its pod.
// Errors are fault.Denied for tokens that are of nobody's, fault.Unavailable where the API
// server does not tell.
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

// holder is whom the API server says that a token is of.
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

// user is how the API server calls a service account.
func (c Cluster) user(account string) string {
	return "system:serviceaccount:" + c.Namespace + ":" + account
}

func denied(format string, args ...any) error {
	return fault.New(fault.Denied, "join token: "+format, args...)
}

// Anew is the command after which no authorities are written any more, so that a netmaster founds a cluster.
func (c Cluster) Anew() string {
	return fmt.Sprintf(`kubectl --namespace %s patch configmap %s --type merge --patch '{"data":null}'`, c.Namespace, ConfigMap)
}

// Authorities are those that the leader has written for who joins. Errors: fault.NotFound while
// it has not, fault.Unavailable where the API server does not tell.
func (c Cluster) Authorities(ctx context.Context) (*x509.CertPool, error) {
	written, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "authorities in ConfigMap %s/%s: %w", c.Namespace, ConfigMap, err)
	}
	if written.Data[Key] == "" {
		return nil, fault.New(fault.NotFound, "ConfigMap %s/%s has no %s yet: the leader writes it", c.Namespace, ConfigMap, Key)
	}
	pool, err := pki.Pool([]byte(written.Data[Key]))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %s: %w", c.Namespace, ConfigMap, Key, err)
	}
	return pool, nil
}
