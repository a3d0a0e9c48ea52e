package netctl

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/oauth2"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/utils/fault"
)

var openIDFamily = family{name: "openid", usage: "The OpenID Connect provider whose users log in with a browser", tools: []tool{
	{name: "set", usage: "Say how the provider is reached, or change it", run: setProvider, flags: func() []cli.Flag {
		return []cli.Flag{
			&cli.StringFlag{Name: "issuer", Usage: "https URL of the provider, as it is in its tokens", OnlyOnce: true},
			&cli.StringFlag{Name: "client-id", Usage: "what the provider knows this cluster by", OnlyOnce: true},
			&cli.BoolFlag{Name: "client-secret-stdin", Usage: "read the secret of the client from standard input; an empty one: the client is public"},
			&cli.StringFlag{Name: "ca", TakesFile: true, Usage: "file with the authorities of the provider's certificate (default, and with an empty name: those of the system)", OnlyOnce: true},
			&cli.StringFlag{Name: "username-claim", Usage: "claim that has the name of a user (default: preferred_username)", OnlyOnce: true},
			&cli.StringFlag{Name: "groups-claim", Usage: "claim that has the groups (default: groups)", OnlyOnce: true},
			&cli.StringFlag{Name: "scopes", Usage: "what is asked for beside openid, with commas between, such as profile,groups", OnlyOnce: true},
		}
	}, more: "What is not given stays as it is, where there is a provider already. The provider has to send browsers back to http://127.0.0.1 with any port and /callback. " +
		"Its users are oidc:NAME, and may what their groups may: `netctl role grant --group oidc:GROUP ROLE`. The secret is stored sealed, and never shown."},
	{name: "show", usage: "Show how the provider is reached, but for the secret", run: showProvider, flags: func() []cli.Flag { return []cli.Flag{outputFlag(documentFormats)} }},
	{name: "rm", usage: "Forget the provider; sessions go on until they end", run: func(s *session) error {
		return s.done("Removed the OpenID Connect provider", s.client.RemoveProvider(s.ctx))
	}},
}}

func setProvider(s *session) error {
	var config contivmodel.OpenIDConfig
	for flag, field := range map[string]**string{"issuer": &config.Issuer, "client-id": &config.ClientID, "username-claim": &config.NameClaim, "groups-claim": &config.GroupsClaim} {
		if s.cmd.IsSet(flag) {
			text := s.cmd.String(flag)
			*field = &text
		}
	}
	if s.cmd.IsSet("scopes") {
		scopes := listed(s.cmd.String("scopes"))
		config.Scopes = &scopes
	}
	authorities, err := s.fileOf("ca")
	if err != nil {
		return err
	}
	config.Authorities = authorities
	if s.cmd.Bool("client-secret-stdin") {
		secret := s.line()
		config.Secret = &secret
	}
	err = s.client.ChangeProvider(s.ctx, config)
	if fault.Is(err, fault.NotFound) {
		err = s.client.SetProvider(s.ctx, config)
	}
	return s.done("Set the OpenID Connect provider", err)
}

// fileOf returns the content of the file that a flag names, empty if the flag is empty; nil without the flag.
func (s *session) fileOf(flag string) (*string, error) {
	if !s.cmd.IsSet(flag) {
		return nil, nil
	}
	path := s.cmd.String(flag)
	if path == "" {
		return &path, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError{err}
	}
	text := string(content)
	return &text, nil
}

func showProvider(s *session) error {
	config, err := s.client.Provider(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(config)
	}
	scopes, authorities := "", "those of the system"
	if config.Scopes != nil {
		scopes = strings.Join(*config.Scopes, ",")
	}
	if given(config.Authorities) != "" {
		authorities = "its own"
	}
	for _, row := range [][2]string{{"Issuer", given(config.Issuer)}, {"Client", given(config.ClientID)}, {"Authorities", authorities},
		{"Username claim", given(config.NameClaim)}, {"Groups claim", given(config.GroupsClaim)}, {"Scopes", scopes}} {
		if _, err := fmt.Fprintf(s.out, "%-16s%s\n", row[0]+":", printable(row[1])); err != nil {
			return err
		}
	}
	return nil
}

// browserTime is how long a login at a provider may take.
const browserTime = 5 * time.Minute

// tokenByBrowser logs in at one server through its provider.
func (s *session) tokenByBrowser(server string) (string, error) {
	c, err := s.at(server, "")
	if err != nil {
		return "", err
	}
	defer c.Close()
	at, err := c.OpenID(s.ctx)
	if err != nil {
		return "", err
	}
	waiting, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.cmd.Int("port")))
	if err != nil {
		return "", fileError{err}
	}
	defer waiting.Close()
	proof := contivmodel.OpenIDProof{
		Verifier: oauth2.GenerateVerifier(), Nonce: rand.Text(),
		Redirect: "http://" + waiting.Addr().String() + "/callback",
	}
	state := rand.Text()
	way := (&oauth2.Config{
		ClientID: at.ClientID, RedirectURL: proof.Redirect, Scopes: append([]string{"openid"}, at.Scopes...),
		Endpoint: oauth2.Endpoint{AuthURL: at.AuthURL},
	}).
		AuthCodeURL(state, oauth2.S256ChallengeOption(proof.Verifier), oauth2.SetAuthURLParam("nonce", proof.Nonce))
	fmt.Fprintf(s.errOut, "Log in with a browser at:\n\n    %s\n\n", way)
	if s.cmd.Bool("paste") {
		fmt.Fprint(s.errOut, "Address that it ends at, though nothing is there: ")
		proof.Code, err = codeOf(s.line(), state)
	} else {
		proof.Code, err = s.awaitBrowser(waiting, state)
	}
	if err != nil {
		return "", err
	}
	return c.LoginOpenID(s.ctx, proof)
}

// codeOf returns the code in the URL to which the browser was redirected.
func codeOf(address, state string) (string, error) {
	back, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return "", fault.New(fault.Invalid, "login: that is no address")
	}
	said := back.Query()
	switch {
	case said.Get("state") != state:
		return "", fault.New(fault.Denied, "login: the browser comes back from another login")
	case said.Get("error") != "":
		return "", fault.New(fault.Denied, "login: the provider says %s %s", printable(said.Get("error")), printable(said.Get("error_description")))
	case said.Get("code") == "":
		return "", fault.New(fault.Denied, "login: the browser brings nothing back")
	}
	return said.Get("code"), nil
}

// awaitBrowser serves the redirected browser. Requests with another state are ignored.
func (s *session) awaitBrowser(waiting net.Listener, state string) (string, error) {
	type outcome struct {
		code string
		err  error
	}
	came := make(chan outcome, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		code, err := codeOf(r.URL.String(), state)
		if r.URL.Query().Get("state") != state {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, "This window can be closed. See netctl for whether the login has succeeded.")
		select {
		case came <- outcome{code, err}:
		default: // already received
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: client.DefaultTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(waiting) }()
	limit := time.NewTimer(browserTime)
	defer limit.Stop()
	var got outcome
	select {
	case got = <-came:
	case <-limit.C:
		got.err = fault.New(fault.Unavailable, "login: no browser has come back in %s", browserTime)
	case <-s.ctx.Done():
		got.err = s.ctx.Err()
	case err := <-ended:
		return "", fileError{err}
	}
	// The browser must receive the response before the command ends.
	if err := server.Shutdown(s.ctx); err != nil && got.err == nil && !errors.Is(err, http.ErrServerClosed) {
		_ = server.Close()
	}
	<-ended
	return got.code, got.err
}
