package children_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
)

func exampleOwner() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "site", UID: "1f"}}
}

// A reconciler says which children there are, in each reconcile.
func Example() {
	ctx, site := context.Background(), exampleOwner()
	client := fake.NewClientset(site).CoreV1()
	// When the controller is made. Only its own Secrets are cached, by their
	// label:
	kind, mine := corev1.SchemeGroupVersion.WithKind("ConfigMap"), labels.Set{"app.kubernetes.io/managed-by": "pages"}
	pages := informer.For(client.Secrets(""), &informer.Options{LabelSelector: mine.String()}) // for reconcile.Owned
	set := children.New(kind, client.ConfigMaps, pages, client.Secrets, &children.Options{Mark: mine})

	// When it reconciles site:
	page := func(name, content string) children.Child[*corev1.Secret] {
		return children.Child[*corev1.Secret]{Name: name, Edit: func(s *corev1.Secret) {
			s.Data = map[string][]byte{"content": []byte(content)}
		}}
	}
	all, err := set.Ensure(ctx, site, page("home", "Welcome"), page("about", "We sell shoes"))
	for _, p := range all {
		fmt.Println(p.Namespace, p.Name, string(p.Data["content"]), p.OwnerReferences[0].Name)
	}
	fmt.Println(err)
	// Output:
	// shop home Welcome site
	// shop about We sell shoes site
	// <nil>
}

// Own is for children that are made in another way.
func ExampleOwn() {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	here := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "page"}}
	fmt.Println(children.Own(exampleOwner(), kind, here), here.OwnerReferences[0].Kind)
	there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "page"}}
	fmt.Println(children.Own(exampleOwner(), kind, there))
	// Output:
	// <nil> ConfigMap
	// setting the owner of "bank/page": ConfigMap "shop/site" cannot own a child in namespace "bank": the garbage collector would delete the child; own it by label instead, see children.Options.ByLabel
}

// The safety limit has an error of its own, so that a status can say so.
func ExampleSet_Ensure() {
	ctx, site := context.Background(), exampleOwner()
	client := fake.NewClientset(site)
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for i := range 4 {
		page := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("page-", i)}}
		_ = children.Own(site, kind, page)
		_ = client.Tracker().Add(page)
	}
	pages := informer.For(client.CoreV1().Secrets(""), nil)
	set := children.New(kind, client.CoreV1().ConfigMaps, pages, client.CoreV1().Secrets,
		&children.Options{MaxCount: 2})
	stop := started(pages)
	defer stop()
	_, err := set.Ensure(ctx, site) // an empty list, perhaps by mistake
	fmt.Println(errors.Is(err, children.ErrLimit))
	fmt.Println(err)
	// Output:
	// true
	// ensuring the children of ConfigMap "shop/site": the safety limit refuses to delete the children: 4 of 4 children are no longer wanted (such as shop/page-0), more than 2 and more than 50 %: not deleting any child; if that is intended, annotate the owner with homeostat.dev/confirm-deletion=a4021776, or raise children.Options.MaxCount or MaxShare
}

// A copy in each namespace is owned by label: an owner reference does not reach
// there.
func ExampleSet_DeleteOrphans() {
	ctx, site := context.Background(), exampleOwner()
	client := fake.NewClientset(site).CoreV1()
	secrets := informer.For(client.Secrets(""), nil)
	copies := children.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"), client.ConfigMaps, secrets, client.Secrets,
		&children.Options{ByLabel: true})

	var wanted []children.Child[*corev1.Secret]
	for _, namespace := range []string{"bank", "zoo"} {
		wanted = append(wanted, children.Child[*corev1.Secret]{Namespace: namespace, Name: "pass", Edit: func(s *corev1.Secret) {
			s.Data = map[string][]byte{"token": []byte("t")}
		}})
	}
	all, err := copies.Ensure(ctx, site, wanted...)
	for _, s := range all {
		fmt.Println(s.Namespace, s.Name, s.Labels["homeostat.dev/owner-name"])
	}
	fmt.Println(err)

	_ = client.ConfigMaps("shop").Delete(ctx, "site", metav1.DeleteOptions{}) // while the program was down
	stop := started(secrets)
	defer stop()
	// In the reconcile of a key whose object is not found, of which
	// reconcile.Owned(secrets) is a cause:
	fmt.Println(copies.DeleteOrphans(ctx, types.NamespacedName{Namespace: "shop", Name: "site"}))
	left, _ := client.Secrets("").List(ctx, metav1.ListOptions{})
	fmt.Println(len(left.Items), "left")
	// Output:
	// bank pass site
	// zoo pass site
	// <nil>
	// <nil>
	// 0 left
}

// started runs an informer until stop is called, as a controller does.
func started(in *informer.Informer[*corev1.Secret]) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = in.Run(ctx)
	}()
	_ = in.WaitForSync(ctx)
	return func() {
		cancel()
		<-ended
	}
}
