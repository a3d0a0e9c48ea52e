package podjoin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stest "k8s.io/client-go/testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

const namespace = "kube-system"

// saying is a cluster whose API server says something of every token for our audience.
func saying(t *testing.T, said authenticationv1.TokenReviewStatus, failure error) Cluster {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(action k8stest.Action) (bool, runtime.Object, error) {
		asked := action.(k8stest.CreateAction).GetObject().(*authenticationv1.TokenReview)
		if asked.Spec.Token != "a.b.c" || len(asked.Spec.Audiences) != 1 || asked.Spec.Audiences[0] != mastercfg.JoinAudience {
			t.Errorf("asked for %+v", asked.Spec)
		}
		return true, &authenticationv1.TokenReview{Status: said}, failure
	})
	return Cluster{Client: client, Namespace: namespace}
}

func TestATokenIsThatOfTheNodeOfItsPod(t *testing.T) {
	onNode := map[string]authenticationv1.ExtraValue{nodeOfToken: {"h1"}}
	ours := []string{mastercfg.JoinAudience}
	of := func(account string, extra map[string]authenticationv1.ExtraValue) authenticationv1.UserInfo {
		return authenticationv1.UserInfo{Username: "system:serviceaccount:" + account, Extra: extra}
	}
	for name, c := range map[string]struct {
		said authenticationv1.TokenReviewStatus
		err  error
		who  string
		kind fault.Kind
	}{
		"netplugin":          {said: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: of("kube-system:contiv-netplugin", onNode)}, who: "node/h1"},
		"netmaster":          {said: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: of("kube-system:contiv-netmaster", onNode)}, who: "master/h1"},
		"unknown":            {said: authenticationv1.TokenReviewStatus{Audiences: ours, User: of("kube-system:contiv-netplugin", onNode)}, kind: fault.Denied},
		"other audience":     {said: authenticationv1.TokenReviewStatus{Authenticated: true, User: of("kube-system:contiv-netplugin", onNode)}, kind: fault.Denied},
		"other account":      {said: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: of("kube-system:default", onNode)}, kind: fault.Denied},
		"other namespace":    {said: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: of("shop:contiv-netplugin", onNode)}, kind: fault.Denied},
		"user":               {said: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: authenticationv1.UserInfo{Username: "contiv-netplugin", Extra: onNode}}, kind: fault.Denied},
		"of no pod":          {said: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: of("kube-system:contiv-netplugin", nil)}, kind: fault.Denied},
		"of two nodes":       {said: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: of("kube-system:contiv-netplugin", map[string]authenticationv1.ExtraValue{nodeOfToken: {"h1", "h2"}})}, kind: fault.Denied},
		"node without name":  {said: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: of("kube-system:contiv-netplugin", map[string]authenticationv1.ExtraValue{nodeOfToken: {""}})}, kind: fault.Denied},
		"API server is away": {err: errors.New("connection refused"), kind: fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := saying(t, c.said, c.err).Vouch(t.Context(), "a.b.c")
			if c.who != "" && (err != nil || who.String() != c.who) || c.who == "" && !fault.Is(err, c.kind) {
				t.Errorf("%s, %v; want %s, a fault of kind %v", who, err, c.who, c.kind)
			}
			if err != nil && strings.Contains(err.Error(), "a.b.c") {
				t.Errorf("the token is shown: %v", err)
			}
		})
	}
}

// What cannot be a token of a service account costs the API server nothing.
func TestWhatIsNoTokenIsNotAskedAbout(t *testing.T) {
	c := Cluster{Client: fake.NewClientset(), Namespace: namespace}
	for _, token := range []string{"", "x", "a.b", "CT1.a.b.c", "a.b." + strings.Repeat("c", maxToken)} {
		if _, err := c.Vouch(t.Context(), token); !fault.Is(err, fault.Denied) {
			t.Errorf("%.20q: %v", token, err)
		}
	}
	if asked := c.Client.(*fake.Clientset).Actions(); len(asked) > 0 {
		t.Errorf("asked: %v", asked)
	}
}

// The leader publishes the CAs where joining pods read them, and again when they change.
func TestAuthoritiesAreFoundWhereTheyAreWritten(t *testing.T) {
	c := Cluster{Namespace: namespace, Client: fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMap}})}
	if _, err := c.Authorities(t.Context()); !fault.Is(err, fault.NotFound) {
		t.Errorf("before the leader has written: %v", err)
	}
	present := make(chan string, 1)
	present <- ""
	now := func() string { text := <-present; present <- text; return text }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Publish(ctx, now, testkit.Quiet()) }()
	defer func() { stop(); <-done }()
	for range 2 {
		by, err := pki.NewCluster(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		<-present
		present <- string(pki.EncodeCertificates(by[pki.API].Certificate))
		want, err := pki.Pool(pki.EncodeCertificates(by[pki.API].Certificate))
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 10*time.Second, "the authorities are written", func() bool {
			found, err := c.Authorities(t.Context())
			return err == nil && found.Equal(want)
		})
	}
}
