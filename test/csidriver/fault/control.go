package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxRequest bounds a request to the control socket in bytes.
const maxRequest = 64 << 10

// Handler serves the table to a Client:
//
//	POST /add                   the body is a Fault in JSON; the answer is its ID
//	POST /remove?id=ID          as Table.Remove
//	POST /release?id=ID         as Table.Release
//	POST /await?id=ID&calls=N   as Table.Await
func (t *Table) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add", func(w http.ResponseWriter, r *http.Request) {
		id, err := t.addFrom(w, r)
		if err == nil {
			fmt.Fprintln(w, id)
		}
		refuse(w, err)
	})
	byID := func(path string, do func(r *http.Request, id int) error) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			id, err := strconv.Atoi(r.FormValue("id"))
			if err == nil {
				err = do(r, id)
			}
			refuse(w, err)
		})
	}
	byID("/remove", func(r *http.Request, id int) error { return t.Remove(r.Context(), id) })
	byID("/release", func(r *http.Request, id int) error { return t.Release(r.Context(), id) })
	byID("/await", func(r *http.Request, id int) error {
		calls, err := strconv.Atoi(r.FormValue("calls"))
		if err != nil {
			return err
		}
		return t.Await(r.Context(), id, calls)
	})
	return mux
}

// refuse answers an error, if there is one.
func refuse(w http.ResponseWriter, err error) {
	if err == nil {
		return
	}
	http.Error(w, err.Error(), http.StatusBadRequest)
}

// addFrom adds the fault of a request's body.
func (t *Table) addFrom(w http.ResponseWriter, r *http.Request) (int, error) {
	var f Fault
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return 0, err
	}
	return t.Add(r.Context(), f)
}

// Client sets the faults of a driver in another process.
type Client struct{ http *http.Client }

// NewClient returns a Client for a control socket. Nothing is connected yet. Close ends it.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Client{http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Add is Table.Add.
func (c *Client) Add(ctx context.Context, f Fault) (int, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return 0, err
	}
	answer, err := c.post(ctx, "/add", body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer)
}

// Remove is Table.Remove.
func (c *Client) Remove(ctx context.Context, id int) error {
	_, err := c.post(ctx, "/remove?id="+strconv.Itoa(id), nil)
	return err
}

// Release is Table.Release.
func (c *Client) Release(ctx context.Context, id int) error {
	_, err := c.post(ctx, "/release?id="+strconv.Itoa(id), nil)
	return err
}

// Await is Table.Await.
func (c *Client) Await(ctx context.Context, id, calls int) error {
	query := url.Values{"id": {strconv.Itoa(id)}, "calls": {strconv.Itoa(calls)}}
	_, err := c.post(ctx, "/await?"+query.Encode(), nil)
	return err
}

func (c *Client) post(ctx context.Context, path string, body []byte) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://csidriver"+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxRequest))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(answer))
	if response.StatusCode != http.StatusOK {
		return "", errors.New(text)
	}
	return text, nil
}
