package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// post sends one request over the unix socket, with an open file unless it is nil, and returns the body of the
// response. If the server refuses, the error is of type *types.Error; any other error means that there was no
// response.
//
// This is the part of HTTP/1.0 that the two need. The standard library's client would add half a millisecond to
// the start of every invocation.
func post(deadline time.Time, socket, path string, body []byte, file *os.File) (answer []byte, err error) {
	conn, err := dial(deadline, socket)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	head := fmt.Sprintf("POST %s HTTP/1.0\r\nHost: contiv\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, len(body))
	if err := conn.send(append([]byte(head), body...), file); err != nil {
		return nil, fmt.Errorf("send request to %s: %w", socket, err)
	}
	status, answer, err := readAnswer(conn)
	if err != nil {
		return nil, fmt.Errorf("read answer from %s: %w", socket, err)
	}
	if status == statusOK {
		return answer, nil
	}
	return nil, refusal(status, answer)
}

const statusOK = 200

// readAnswer reads status and body; an incomplete body is an error.
func readAnswer(from io.Reader) (status int, body []byte, err error) {
	reader := textproto.NewReader(bufio.NewReader(from))
	line, err := reader.ReadLine()
	if err != nil {
		return 0, nil, err
	}
	protocol, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	if status, err = strconv.Atoi(code); err != nil || !strings.HasPrefix(protocol, "HTTP/1.") {
		return 0, nil, fmt.Errorf("%.60q is no HTTP status", line)
	}
	header, err := reader.ReadMIMEHeader()
	if err != nil {
		return 0, nil, err
	}
	length, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil || length < 0 || length > cniwire.MaxBody {
		return 0, nil, fmt.Errorf("content length %q", header.Get("Content-Length"))
	}
	body = make([]byte, length)
	if _, err := io.ReadFull(reader.R, body); err != nil {
		return 0, nil, err
	}
	return status, body, nil
}

// refusal returns the CNI error in a response, or one made from the status if the response is not from the CNI
// server.
func refusal(status int, body []byte) error {
	var e types.Error
	if err := json.Unmarshal(body, &e); err != nil || e.Msg == "" {
		return types.NewError(types.ErrTryAgainLater, fmt.Sprintf("CNI server answered with status %d: %.200q", status, body), "")
	}
	return &e
}
