package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (p *program) serve(ctx context.Context, args []string) int {
	address, files, err := parseServe(args)
	if err != nil {
		return p.misused("serve: " + err.Error())
	}
	host, err := os.Hostname()
	if err != nil {
		return p.failed(err)
	}
	line := fmt.Sprintf("serving args=%q host=%s pid=%d", args, host, os.Getpid())
	if address == "" {
		fmt.Fprintln(p.stdout, line)
		return p.stay(ctx, 0)
	}
	return p.listen(ctx, address, &http.Server{Handler: answers(files)}, line)
}

// parseServe returns the address, and the files that decide the answers to the paths.
func parseServe(args []string) (address string, files map[string]string, err error) {
	files = make(map[string]string)
	for _, arg := range args {
		name, file, isOption := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") && address == "":
			address = arg
		case isOption && slices.Contains([]string{"start", "live", "ready"}, name):
			files["/"+name] = file
		default:
			return "", nil, fmt.Errorf("unknown argument %q", arg)
		}
	}
	return address, files, nil
}

// dripPause is the time between two lines of /drip.
const dripPause = 100 * time.Millisecond

// answers returns the handler of serve.
func answers(files map[string]string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	for path, file := range files {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if _, err := os.Stat(file); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "hello")
		})
	}
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		lines := []string{"Host: " + r.Host}
		for name, values := range r.Header {
			for _, value := range values {
				lines = append(lines, name+": "+value)
			}
		}
		slices.Sort(lines)
		fmt.Fprintln(w, strings.Join(lines, "\n"))
	})
	mux.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		pieces, _ := strconv.Atoi(r.FormValue("pieces"))
		for range pieces {
			if r.Context().Err() != nil {
				return
			}
			fmt.Fprintln(w, "hello")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(dripPause)
		}
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.FormValue("to"))
		w.WriteHeader(http.StatusFound)
	})
	return mux
}

// listen serves until a signal or the end of ctx. It prints the line and the address once it listens, so that a reader
// of the line can connect.
func (p *program) listen(ctx context.Context, address string, server *http.Server, line string) int {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return p.failed(err)
	}
	server.ReadHeaderTimeout = 10 * time.Second
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(p.stdout, "%s address=%s\n", line, listener.Addr())

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		cancel(<-served)
	}()
	code := p.stay(ctx, 0)
	failure := context.Cause(ctx)
	_ = server.Close() // the process ends, and closes all connections
	<-finished
	if failure != nil && !errors.Is(failure, context.Canceled) && !errors.Is(failure, http.ErrServerClosed) {
		return p.failed(failure)
	}
	return code
}
