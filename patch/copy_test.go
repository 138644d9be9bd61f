package patch_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/patch"
)

// handmade is a widget whose DeepCopyObject was written by hand.
type handmade struct {
	widget

	duplicate func(*handmade) runtime.Object
}

func (h *handmade) DeepCopyObject() runtime.Object { return h.duplicate(h) }

// unwritten fails a test that writes.
type unwritten struct{ *WithT }

func (u unwritten) Patch(
	context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string,
) (*handmade, error) {
	u.Fail("it was patched")
	return nil, nil
}

func (u unwritten) Get(context.Context, string, metav1.GetOptions) (*handmade, error) {
	u.Fail("it was read")
	return nil, nil
}

func (u unwritten) Create(context.Context, *handmade, metav1.CreateOptions) (*handmade, error) {
	u.Fail("it was created")
	return nil, nil
}

func (u unwritten) Fail(message string) { u.Expect(message).To(BeEmpty()) }

// A type has got a field, and its DeepCopyObject was not generated again. The
// edit would remove the field from the server's object, or would be made in the
// cache.
func TestAnEditOfACopyThatIsNotDeepIsRefused(t *testing.T) {
	g := NewWithT(t)
	shallow := func(h *handmade) *handmade {
		out := *h
		return &out
	}
	for field, duplicate := range map[string]func(*handmade) runtime.Object{
		"spec.color": func(h *handmade) runtime.Object {
			out := &handmade{widget: *h.widget.DeepCopyObject().(*widget), duplicate: h.duplicate}
			out.Spec.Color = ""
			return out
		},
		"spec.parts.1.kind": func(h *handmade) runtime.Object {
			out := &handmade{widget: *h.widget.DeepCopyObject().(*widget), duplicate: h.duplicate}
			out.Spec.Parts[1].Kind = ""
			return out
		},
		"spec.settings": func(h *handmade) runtime.Object {
			out := &handmade{widget: *h.widget.DeepCopyObject().(*widget), duplicate: h.duplicate}
			out.Spec.Settings = h.Spec.Settings
			return out
		},
		"metadata.finalizers": func(h *handmade) runtime.Object { return shallow(h) },
		"the object itself":   func(h *handmade) runtime.Object { return h },
	} {
		is := &handmade{widget: *gadget(), duplicate: duplicate}
		client := func(string) unwritten { return unwritten{g} }
		edit := func(h *handmade) {
			h.Spec.Size = 7
			h.Spec.Settings["k"] = "edited"
		}
		_, err := patch.Merge(t.Context(), client, is, nil, edit)
		g.Expect(err).To(MatchError(ContainSubstring(field)))
		_, err = patch.Status(t.Context(), client, is, nil, func(h *handmade) { h.Status.Phase = "Up" })
		g.Expect(err).To(MatchError(ContainSubstring(field)))
		_, err = patch.Ensure(t.Context(), client, is, nil, edit)
		g.Expect(err).To(MatchError(ContainSubstring(field)))
		g.Expect(is.widget).To(Equal(*gadget()), "the cached object is never written to")
		is.UID, is.ResourceVersion = "", ""
		_, err = patch.Ensure(t.Context(), client, is, nil, edit)
		g.Expect(err).To(MatchError(ContainSubstring(field)), "a creation loses them, too")
	}
}
