package replog;

import kafka.utils.TestUtils$;

import net.bytebuddy.ByteBuddy;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.dynamic.loading.ClassReloadingStrategy;
import net.bytebuddy.matcher.ElementMatchers;

/**
 * What Kafka's harness does and cannot do here: it makes `__consumer_offsets` before each test, but replog has no groups
 * yet; and it waits until brokers have read what a controller's log has, which is no log here. Then it waits a second.
 */
public final class LeftOut {
    private LeftOut() {
    }

    public static void install() {
        ByteBuddyAgent.install();
        new ByteBuddy()
            .redefine(TestUtils$.class)
            .visit(Advice.to(Skipped.class).on(ElementMatchers.named("createOffsetsTopicWithAdmin")))
            .visit(Advice.to(Waited.class).on(ElementMatchers.named("ensureConsistentKRaftMetadata")))
            .make()
            .load(TestUtils$.class.getClassLoader(), ClassReloadingStrategy.fromInstalledAgent());
    }

    private static final class Skipped {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter() {
            return true;
        }
    }

    private static final class Waited {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter() throws InterruptedException {
            Thread.sleep(1000);
            return true;
        }
    }
}
