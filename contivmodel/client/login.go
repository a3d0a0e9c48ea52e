package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/contiv/netplugin/utils/fault"
)

// wrongLogin is the message of servers for a wrong name or password, also of the original.
const wrongLogin = "Invalid username/password"

// Login requests a token. Wrong credentials are a fault.Denied, and so are too many attempts.
func (c *Client) Login(ctx context.Context, username, password string) (token string, err error) {
	body, err := json.Marshal(map[string]string{"username": username, "password": password})
	if err != nil {
		return "", fault.New(fault.Internal, "login: %w", err)
	}
	var answer struct {
		Token string `json:"token"`
	}
	err = c.do(ctx, http.MethodPost, "/api/v1/auth_proxy/login/", body, &answer)
	switch {
	case fault.Is(err, fault.Denied) && (err.Error() == wrongLogin || err.Error() == accessDenied):
		return "", fault.New(fault.Denied, "bad username or password")
	case err == nil && answer.Token == "":
		return "", fault.New(fault.Internal, "login: the server sent no token")
	}
	return answer.Token, err
}
