package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

var (
	// errListTimeout: a list was given up as it takes too long.
	errListTimeout = fmt.Errorf("it hasn't answered for %v", listTimeout)
	// errCut: a watch that client-go takes for one that ended at once, as its connection broke.
	errCut = errors.New("it cut the connection")
	// errUnfinished makes a reflector ask for a list.
	errUnfinished = errors.New("streaming lists aren't completed; a list is asked for")
	// errVersion makes a reflector ask for a list, too.
	errVersion = errors.New("the server refuses a streaming list without a version as too old; a list is asked for")
	// errSuspect does so as well.
	errSuspect = errors.New("another cluster has answered; a list is asked for")
	// errOutdated: a list was older than it had to be.
	errOutdated = errors.New("a list is older than what was read before")
)

// away returns the error of a server that can't be read.
func away(address string, err error) error {
	if isIdentity(err) {
		return err
	}
	if answered(err) {
		return fmt.Errorf("the API server at %s answers: %w; its pods are kept", address, err)
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		err = operation.Err
	}
	return fmt.Errorf("the API server at %s can't be reached: %w; its pods are kept", address, err)
}

// isIdentity reports whether the server answers, and isn't shown to be of the cluster that the pods are from.
func isIdentity(err error) bool {
	var identity *identityError
	return errors.As(err, &identity)
}

// answered reports whether the server was reached, and refused.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// rereads reports whether the reflector, by itself, requests again at once in another way.
func rereads(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// anyVersion reports whether a request leaves the version to the server. If the server refuses that because of the
// version, there is no other way to ask.
func anyVersion(options *metav1.ListOptions) bool {
	return options.ResourceVersion == "" && options.Continue == ""
}

// unreadableVersion reports whether the server doesn't understand the resource version of the request.
func unreadableVersion(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

// isEmpty distinguishes client-go's stand-in for a watch whose connection broke from a watch.
func isEmpty(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}
