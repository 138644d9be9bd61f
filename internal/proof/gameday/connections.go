package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bad disturbs the connections to the API server in the way that b describes.
// It returns a function that ends the disturbance.
func bad(w *world, b badness) func(context.Context) error {
	w.proxy.become(b)
	return func(context.Context) error {
		w.proxy.become(badness{})
		return nil
	}
}

func slow(_ context.Context, w *world) (func(context.Context) error, error) {
	return bad(w, badness{delay: 7 * time.Second}), nil
}

func swallowed(_ context.Context, w *world) (func(context.Context) error, error) {
	return bad(w, badness{swallows: true}), nil
}

func certificateAhead(_ context.Context, w *world) (func(context.Context) error, error) {
	shown, err := futureCertificate("127.0.0.1")
	if err != nil {
		return nil, err
	}
	return bad(w, badness{present: shown}), nil
}

// take gives the Lease to a client that is not a replica, as if that client had
// just renewed the Lease.
func (w *world) take(ctx context.Context) error {
	_, err := w.admin.CoordinationV1().Leases(name).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil,
		`{"spec":{"holderIdentity":"stranger","leaseDurationSeconds":15,"renewTime":%q}}`,
		time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")), metav1.PatchOptions{FieldManager: "stranger"})
	return err
}

// diskFull makes etcd refuse writes, as it does when its disk or its quota is
// full.
func diskFull(ctx context.Context, w *world) (func(context.Context) error, error) {
	return func(ctx context.Context) error { return w.noSpace(ctx, "DEACTIVATE") }, w.noSpace(ctx, "ACTIVATE")
}

func (w *world) noSpace(ctx context.Context, action string) error {
	body := fmt.Sprintf(`{"action":%q,"memberID":"1","alarm":"NOSPACE"}`, action)
	url := w.etcd() + "/v3/maintenance/alarm"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("setting the alarm of etcd: the answer is %s", response.Status)
	}
	return nil
}
