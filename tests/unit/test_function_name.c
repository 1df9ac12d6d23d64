/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/function_name.h"

#include <string.h>

#include "base/xalloc.h"

#include "unit.h"

typedef void shorten(struct buffer *out, const char *name);

static void assert_form(shorten *form, const char *name, const char *wanted)
{
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	/* What is there already must stay. */
	buffer_append_string(&out, "<(");
	form(&out, name);
	assert_string_equal(buffer_string(&out) + 2, wanted);
	buffer_deinit(&out);
}

static void assert_short(const char *name, const char *wanted)
{
	assert_form(function_name_append_short, name, wanted);
}

static void assert_bare(const char *name, const char *wanted)
{
	assert_form(function_name_append_bare, name, wanted);
}

static void keeps_names_of_c(void **state)
{
	(void)state;
	assert_short("main", "main");
	assert_short("foo.constprop.0", "foo.constprop.0");
	assert_short("__libc_start_main@@GLIBC_2.34", "__libc_start_main@@GLIBC_2.34");
	assert_short("", "");
}

static void drops_arguments_and_result(void **state)
{
	(void)state;
	assert_short("app::parse(char const*, int)", "app::parse");
	assert_short("app::Table::size() const", "app::Table::size");
	assert_short("void app::each<int>(int, void (*)(int))", "app::each<int>");
	assert_short("unsigned long std::max<unsigned long>(unsigned long, unsigned long)",
		"std::max<unsigned long>");
	assert_short("std::vector<int, std::allocator<int> >::push_back(int const&)",
		"std::vector<int, std::allocator<int> >::push_back");
	assert_short("app::run(int) [clone .cold]", "app::run [clone .cold]");
	assert_short("std::map<int, int>::at(int) &&", "std::map<int, int>::at");
}

static void keeps_what_only_looks_like_arguments(void **state)
{
	(void)state;
	assert_short("load (app.py)", "load (app.py)");
	assert_short("block in each (a.rb:3)", "block in each (a.rb:3)");
	assert_short("block (2 levels) in run (a.rb:3)", "block (2 levels) in run (a.rb:3)");
	assert_short("block (2 levels) in run", "block (2 levels) in run");
	assert_short("Main.main (Main.hs:(3,1)-(5,10))", "Main.main (Main.hs:(3,1)-(5,10))");
	assert_short("load (/srv/app/(auth)/page.js:3)", "load (/srv/app/(auth)/page.js:3)");
	assert_short(
		"JS:~load file:///srv/(auth)/page.js:3", "JS:~load file:///srv/(auth)/page.js:3");
	assert_short("decltype(auto) ns::grow<int>(int)", "ns::grow<int>");
	assert_short("(anonymous) (app.js:10:5)", "(anonymous) (app.js:10:5)");
	assert_short("void (anonymous namespace)::work(int)", "(anonymous namespace)::work");
	assert_short("std::literals::operator\"\" s[abi:cxx11](char const*, unsigned long)",
		"std::literals::operator\"\" s[abi:cxx11]");
	assert_short("(anonymous namespace)::work(int)", "(anonymous namespace)::work");
	assert_short("app::(anonymous namespace)::work(int)", "app::(anonymous namespace)::work");
	assert_short("std::function<void (int)>::operator()(int) const",
		"std::function<void (int)>::operator()");
	assert_short("app::run(int)::{lambda(int)#1}::operator()(int) const",
		"app::run::{lambda(int)#1}::operator()");
	assert_short("main.(*Server).Serve", "main.(*Server).Serve");
}

static void understands_operators(void **state)
{
	(void)state;
	assert_short("operator new(unsigned long)", "operator new");
	assert_short("operator new[](unsigned long, std::nothrow_t const&)", "operator new[]");
	assert_short("std::ostream& operator<< <char>(std::ostream&, char)", "operator<< <char>");
	assert_short("app::Id::operator<(app::Id const&) const", "app::Id::operator<");
	assert_short("app::P::operator->() const", "app::P::operator->");
	assert_short("app::Id::operator unsigned long() const", "app::Id::operator unsigned long");
	assert_short("bool operator==<int>(A<int> const&, A<int> const&)", "operator==<int>");
}

static void keeps_names_of_rust(void **state)
{
	(void)state;
	assert_short("<alloc::vec::Vec<T> as core::fmt::Debug>::fmt",
		"<alloc::vec::Vec<T> as core::fmt::Debug>::fmt");
	assert_short("core::ops::function::FnOnce::call_once{{vtable.shim}}",
		"core::ops::function::FnOnce::call_once{{vtable.shim}}");
	assert_short("app::run::{closure#0}", "app::run::{closure#0}");
}

static void drops_descriptors_of_java(void **state)
{
	(void)state;
	assert_short("java/lang/String.indexOf(II)I", "java/lang/String.indexOf");
	assert_short("java/lang/String.indexOf(II)J_[j]", "java/lang/String.indexOf_[j]");
	assert_short("java/lang/Thread.run()V", "java/lang/Thread.run");
	assert_short("app/Main.<init>(Ljava/lang/String;[I)V", "app/Main.<init>");
	assert_short("app/Main.names(J)[Ljava/lang/String|", "app/Main.names");
	assert_short("app/Main.key()[[B", "app/Main.key");
	assert_short("app/Main.odd()Ljava", "app/Main.oddLjava");
	assert_short("app/Main.step(I)I:12", "app/Main.step:12");
	assert_short("app/Main.copy([Ljava/lang/String|)[Ljava/lang/Object|", "app/Main.copy");
	assert_short("app/Main.sum([[J[BLapp/Key;)J_[i]", "app/Main.sum_[i]");
}

static void keeps_descriptions(void **state)
{
	(void)state;
	assert_short("non-virtual thunk to app::B::f(int)", "non-virtual thunk to app::B::f");
	assert_short("guard variable for app::x(int)::y", "guard variable for app::x::y");
}

static void makes_bare_names_as_jeprof_does(void **state)
{
	(void)state;
	assert_bare("std::vector<int, std::allocator<int> >::push_back(int const&)",
		"std::vector::push_back");
	assert_bare("void app::each<int>(int)", "app::each");
	assert_bare("app::Table::size() const", "app::Table::size");
	assert_bare("operator new(unsigned long)", "operator new");
	assert_bare("void* newImpl<true>(unsigned long)", "void* newImpl");
	assert_bare("<T as app::Trait>::fmt", "::fmt");
}

static void survives_unbalanced_brackets(void **state)
{
	(void)state;
	assert_short("f(", "f");
	assert_short("f)", "f)");
	assert_short("a<b", "a<b");
	assert_short("operator", "operator");
	assert_short("(", "(");
	assert_bare("f(", "f(");
	assert_bare("f>", "f>");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(keeps_names_of_c),
	cmocka_unit_test(drops_arguments_and_result),
	cmocka_unit_test(keeps_what_only_looks_like_arguments),
	cmocka_unit_test(understands_operators),
	cmocka_unit_test(keeps_names_of_rust),
	cmocka_unit_test(drops_descriptors_of_java),
	cmocka_unit_test(keeps_descriptions),
	cmocka_unit_test(makes_bare_names_as_jeprof_does),
	cmocka_unit_test(survives_unbalanced_brackets),
};

UNIT_MAIN(tests)
