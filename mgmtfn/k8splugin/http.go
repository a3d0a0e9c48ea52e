package k8splugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/utils/fault"
)

// serveV2 handles one request of the present protocol.
func (s *Server) serveV2(w http.ResponseWriter, r *http.Request) {
	var request cniwire.Request
	if err := readBody(w, r, &request); err != nil {
		s.refuse(w, request, err)
		return
	}
	result, err := s.execute(r.Context(), request)
	if err != nil {
		s.refuse(w, request, err)
		return
	}
	s.answer(w, http.StatusOK, result)
}

// refuse answers with a CNI error.
func (s *Server) refuse(w http.ResponseWriter, r cniwire.Request, err error) {
	cause := cniError(err)
	s.logRefusal(r, cause)
	body, err := json.Marshal(cause)
	if err != nil {
		s.Log.WithError(err).Error("encode CNI error")
	}
	s.answer(w, statusOf(cause), body)
}

// logRefusal logs a failed command. A failed STATUS is logged at level debug only: the runtime
// repeats it every few seconds while the node is not ready.
func (s *Server) logRefusal(r cniwire.Request, cause *types.Error) {
	log := s.Log.WithField("command", r.Command).WithField("attachment", r.Attachment().String()).WithField("code", cause.Code)
	if r.Command == cniwire.Status {
		log.Debug(cause.Msg)
		return
	}
	log.Warn(cause.Msg)
}

func statusOf(cause *types.Error) int {
	switch cause.Code {
	case types.ErrDecodingFailure, types.ErrInvalidEnvironmentVariables, types.ErrInvalidNetworkConfig,
		types.ErrIncompatibleCNIVersion, types.ErrUnsupportedField:
		return http.StatusBadRequest
	case types.ErrTryAgainLater, types.ErrPluginNotAvailable, types.ErrLimitedConnectivity, codeMasterUnreachable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// answer sets Content-Length: clients of earlier releases need not support chunked encoding.
func (s *Server) answer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.Log.WithError(err).Debug("the client did not wait for its answer")
	}
}

// readBody decodes a request of limited size.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, cniwire.MaxBody))
	if isTooLarge(err) {
		return failed(stepRequest, fault.New(fault.TooLarge, "request of more than %d bytes", cniwire.MaxBody))
	}
	if err != nil {
		return failed(stepRequest, fault.New(fault.Malformed, "read request: %w", err))
	}
	// ReadTimeout is for the request. After that it would cancel the context of a command
	// that takes longer, as if the client had closed the connection.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("lift time limit of request: %w", err)
	}
	return decodeRequest(data, into)
}

// decodeRequest accepts exactly one JSON document.
func decodeRequest(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(into); err != nil {
		return failed(stepRequest, fault.New(fault.Malformed, "decode request: %w", err))
	}
	if decoder.More() {
		return failed(stepRequest, fault.New(fault.Malformed, "decode request: more than one document"))
	}
	return nil
}

// isTooLarge reports whether the body exceeded the limit.
func isTooLarge(err error) bool {
	var tooLarge *http.MaxBytesError
	return errors.As(err, &tooLarge)
}
