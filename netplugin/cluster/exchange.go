package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// maxAnswer limits how many bytes of a response are read.
const maxAnswer = 1 << 20

// try sends one request to one netmaster. Its error is Unavailable or NotLeader if another attempt may succeed.
func (m *Master) try(ctx context.Context, address, path string, request, answer any) (int64, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, fmt.Errorf("request %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, m.limits.Try)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.scheme()+"://"+address+path, bytes.NewReader(body))
	if err != nil {
		return 0, fault.New(fault.Unavailable, "address %q: %w", address, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", fault.ProblemType+", application/json")
	resp, err := m.http.Do(req)
	if err != nil {
		return 0, fault.New(fault.Unavailable, "%w", err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, fault.New(fault.Unavailable, "answer to %s: %w", path, err)
	case len(content) > maxAnswer:
		return 0, fault.New(fault.Internal, "answer to %s: longer than %d bytes", path, maxAnswer)
	case resp.StatusCode != http.StatusOK:
		return 0, refusal(resp, content)
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return 0, fault.New(fault.Internal, "answer to %s: %w", path, err)
	}
	revision, err := parseRevision(resp.Header.Get(mastercfg.RevisionHeader))
	if err != nil {
		return 0, fault.New(fault.Internal, "answer to %s: %w", path, err)
	}
	return revision, nil
}

// probe sends a netmaster, and thereby the leader, a request without effects.
func (m *Master) probe(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, m.limits.Try)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.scheme()+"://"+address+"/version", nil)
	if err != nil {
		return fault.New(fault.Unavailable, "address %q: %w", address, err)
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return fault.New(fault.Unavailable, "netmaster: %w", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil || resp.StatusCode != http.StatusOK {
		return fault.New(fault.Unavailable, "netmaster at %s answers %s", address, resp.Status)
	}
	return nil
}

func parseRevision(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 0 {
		return 0, errors.New("header " + mastercfg.RevisionHeader + ": \"" + text + "\" is not a revision")
	}
	return revision, nil
}

// refusal returns the error of a response without success: that of its problem document, with its kind, else one
// by the status code.
func refusal(resp *http.Response, content []byte) error {
	if p, ok := fault.ReadProblem(resp.Header.Get("Content-Type"), content); ok {
		return p.Fault()
	}
	text := strings.TrimSpace(string(content))
	kind := fault.Internal
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		kind = fault.Unavailable
	}
	if strings.Contains(text, "Leader not found") {
		kind = fault.NotLeader
	}
	return fault.New(kind, "%s: %s", resp.Status, text)
}
